package org.apache.kafka.raft;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.CreateAclsRequestData;
import org.apache.kafka.common.message.CreateAclsResponseData;
import org.apache.kafka.common.message.DeleteAclsRequestData;
import org.apache.kafka.common.message.DeleteAclsResponseData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.requests.AlterClientQuotasRequest;
import org.apache.kafka.common.requests.AlterClientQuotasResponse;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.requests.CreateAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsRequest;
import org.apache.kafka.common.requests.DeleteAclsResponse;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;

/** Hands requests about who may do what, and how much, to a controller, as ControllerApis does it: ACLs and quotas. */
final class SimSecurity {
    private SimSecurity() {
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
        }
        return Optional.ofNullable(answer);
    }
}
