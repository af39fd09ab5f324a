package org.apache.kafka.raft;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

import org.apache.kafka.common.message.CreateDelegationTokenRequestData;
import org.apache.kafka.common.message.CreateDelegationTokenResponseData;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestData;
import org.apache.kafka.common.message.ExpireDelegationTokenResponseData;
import org.apache.kafka.common.message.RenewDelegationTokenRequestData;
import org.apache.kafka.common.message.RenewDelegationTokenResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.metadata.DelegationTokenData;

/**
 * Delegation tokens of a controller. It looks its tokens up in a cache that its node fills from images; that
 * is done here as DelegationTokenPublisher does it.
 */
final class SimTokens implements SimPublisher {
    private static final String SECRET = "delegation.token.secret.key";
    private static final String MAC = "HmacSHA512"; // as DelegationTokenManager has it

    private final Map<String, String> settings;
    private final DelegationTokenCache tokens = new DelegationTokenCache(List.of());
    private boolean isFirst = true;

    SimTokens(Map<String, String> settings) {
        this.settings = settings;
    }

    boolean areThere() {
        return settings.containsKey(SECRET);
    }

    /** Let a controller have tokens, if there is a key for them. */
    QuorumController.Builder configured(QuorumController.Builder builder) {
        return !areThere() ? builder : builder
            .setDelegationTokenCache(tokens)
            .setDelegationTokenSecretKey(settings.get(SECRET))
            .setDelegationTokenMaxLifeMs(number("delegation.token.max.lifetime.ms", 604_800_000))
            .setDelegationTokenExpiryTimeMs(number("delegation.token.expiry.time.ms", 86_400_000))
            .setDelegationTokenExpiryCheckIntervalMs(number("delegation.token.expiry.check.interval.ms", 3_600_000));
    }

    /** Have tokens live by the node's clock: their manager takes the host's, and nobody may give it another. */
    static void keepTime(QuorumController controller, Time clock) {
        Object tokens = TraceInside.get(controller, "delegationTokenControlManager");
        TraceInside.set(TraceInside.field(tokens.getClass(), "time"), tokens, clock);
    }

    private long number(String name, long otherwise) {
        String text = settings.get(name);
        return text == null ? otherwise : Long.parseLong(text);
    }

    @Override
    public String name() {
        return "Tokens";
    }

    @Override
    public void published(MetadataDelta delta, MetadataImage image, boolean isWhole) {
        if (isFirst) {
            isFirst = false;
            image.delegationTokens().tokens().values().forEach(this::add);
        }
        if (delta.delegationTokenDelta() != null) {
            delta.delegationTokenDelta().changes().forEach((id, data) ->
                data.ifPresentOrElse(this::add, () -> tokens.removeCache(id)));
        }
    }

    private void add(DelegationTokenData data) {
        TokenInformation token = data.tokenInformation();
        try {
            Mac mac = Mac.getInstance(MAC);
            mac.init(new SecretKeySpec(settings.get(SECRET).getBytes(StandardCharsets.UTF_8), MAC));
            byte[] hmac = mac.doFinal(token.tokenId().getBytes(StandardCharsets.UTF_8));
            tokens.updateCache(new DelegationToken(token, hmac), Map.of());
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    /** The answer to come; empty: the request is about something else. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        SimSecurity.Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        CompletableFuture<ApiMessage> answer = null;
        if (request instanceof CreateDelegationTokenRequestData asked) {
            answer = caller.done(key, () -> controller.createDelegationToken(context, asked)).handle((reply, e) ->
                e == null ? reply : new CreateDelegationTokenResponseData().setErrorCode(SimController.code(e)));
        } else if (request instanceof RenewDelegationTokenRequestData asked) {
            answer = caller.done(key, () -> controller.renewDelegationToken(context, asked)).handle((reply, e) ->
                e == null ? reply : new RenewDelegationTokenResponseData().setErrorCode(SimController.code(e)));
        } else if (request instanceof ExpireDelegationTokenRequestData asked) {
            answer = caller.done(key, () -> controller.expireDelegationToken(context, asked)).handle((reply, e) ->
                e == null ? reply : new ExpireDelegationTokenResponseData().setErrorCode(SimController.code(e)));
        }
        return Optional.ofNullable(answer);
    }
}
