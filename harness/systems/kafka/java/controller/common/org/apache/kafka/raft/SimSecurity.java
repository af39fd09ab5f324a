package org.apache.kafka.raft;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsRequestData;
import org.apache.kafka.common.message.AlterUserScramCredentialsResponseData;
import org.apache.kafka.common.message.CreateAclsRequestData;
import org.apache.kafka.common.message.CreateAclsResponseData;
import org.apache.kafka.common.message.CreateDelegationTokenRequestData;
import org.apache.kafka.common.message.CreateDelegationTokenResponseData;
import org.apache.kafka.common.message.DeleteAclsRequestData;
import org.apache.kafka.common.message.DeleteAclsResponseData;
import org.apache.kafka.common.message.ExpireDelegationTokenRequestData;
import org.apache.kafka.common.message.ExpireDelegationTokenResponseData;
import org.apache.kafka.common.message.RenewDelegationTokenRequestData;
import org.apache.kafka.common.message.RenewDelegationTokenResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.requests.AlterClientQuotasRequest;
import org.apache.kafka.common.requests.AlterClientQuotasResponse;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.CreateAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsResponse;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.security.token.delegation.TokenInformation;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.LoaderManifest;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.metadata.DelegationTokenData;

/**
 * Hands requests about who may do what, and how much, to a controller, as ControllerApis does it: ACLs,
 * quotas, SCRAM credentials and delegation tokens. A controller looks its tokens up in a cache that its node
 * fills from images; that is done here as DelegationTokenPublisher does it.
 */
final class SimSecurity implements MetadataPublisher {
    private static final String SECRET = "delegation.token.secret.key";
    private static final String MAC = "HmacSHA512"; // as DelegationTokenManager has it

    private final Map<String, String> settings;
    private final DelegationTokenCache tokens = new DelegationTokenCache(List.of());
    private boolean isFirst = true;

    SimSecurity(Map<String, String> settings) {
        this.settings = settings;
    }

    boolean hasTokens() {
        return settings.containsKey(SECRET);
    }

    /** Let a controller have tokens, if there is a key for them. */
    QuorumController.Builder configured(QuorumController.Builder builder) {
        return !hasTokens() ? builder : builder
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
    public void onMetadataUpdate(MetadataDelta delta, MetadataImage image, LoaderManifest manifest) {
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

    /** Calls a controller, and tells what it has acknowledged. */
    interface Caller {
        <T> CompletableFuture<T> done(short key, Supplier<CompletableFuture<T>> call);
    }

    /** The answer to come; empty: the request is about something else. */
    static Optional<CompletableFuture<ApiMessage>> serve(
        Caller caller, QuorumController controller, short key, ControllerRequestContext context, ApiMessage request
    ) {
        short version = context.requestHeader().requestApiVersion();
        CompletableFuture<ApiMessage> answer = null;
        if (request instanceof CreateAclsRequestData asked) {
            List<AclBinding> wanted = asked.creations().stream().map(CreateAclsRequest::aclBinding).toList();
            answer = caller.done(key, () -> controller.createAcls(context, wanted)).handle((results, e) -> {
                CreateAclsResponseData made = new CreateAclsResponseData();
                for (int i = 0; i < wanted.size(); i++) {
                    ApiError error = e != null ? SimController.error(e)
                        : results.get(i).exception().map(ApiError::fromThrowable).orElse(ApiError.NONE);
                    made.results().add(new CreateAclsResponseData.AclCreationResult()
                        .setErrorCode(error.error().code()).setErrorMessage(error.message()));
                }
                return made;
            });
        } else if (request instanceof DeleteAclsRequestData asked) {
            List<AclBindingFilter> wanted = new DeleteAclsRequest.Builder(asked).build(version).filters();
            answer = caller.done(key, () -> controller.deleteAcls(context, wanted)).handle((results, e) -> {
                DeleteAclsResponseData made = new DeleteAclsResponseData();
                for (int i = 0; i < wanted.size(); i++) {
                    made.filterResults().add(e == null ? DeleteAclsResponse.filterResult(results.get(i))
                        : new DeleteAclsResponseData.DeleteAclsFilterResult().setErrorCode(SimController.code(e)));
                }
                return made;
            });
        } else if (request instanceof AlterClientQuotasRequestData asked) {
            List<ClientQuotaAlteration> wanted = new AlterClientQuotasRequest(asked, version).entries();
            answer = caller.done(key, () -> controller.alterClientQuotas(context, wanted, asked.validateOnly()))
                .handle((results, e) -> e == null ? AlterClientQuotasResponse.fromQuotaEntities(results, 0).data()
                    : new AlterClientQuotasRequest(asked, version).getErrorResponse(0, SimController.cause(e)).data());
        } else if (request instanceof AlterUserScramCredentialsRequestData asked) {
            answer = caller.done(key, () -> controller.alterUserScramCredentials(context, asked)).handle((results, e) -> {
                if (e == null) {
                    return results;
                }
                AlterUserScramCredentialsResponseData made = new AlterUserScramCredentialsResponseData();
                made.results().add(new AlterUserScramCredentialsResponseData.AlterUserScramCredentialsResult()
                    .setErrorCode(SimController.code(e)).setErrorMessage(SimController.message(e)));
                return made;
            });
        } else if (request instanceof CreateDelegationTokenRequestData asked) {
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
