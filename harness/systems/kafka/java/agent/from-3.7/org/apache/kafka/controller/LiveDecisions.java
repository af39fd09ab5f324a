package org.apache.kafka.controller;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestAndSize;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.raft.LiveHooks;
import org.apache.kafka.raft.TraceInside;

/** Tells what the active controller answers to a request, and by which records it has decided that. */
public final class LiveDecisions {
    private static final Field OFFSETS = TraceInside.field(QuorumController.class, "offsetControl");
    private static final Field NEXT = TraceInside.field(OffsetControlManager.class, "nextWriteOffset");
    // Heartbeats are many, and go by the clock; a change of levels goes by kraft.version, too, which is not told.
    private static final Set<ApiKeys> UNTOLD = Set.of(ApiKeys.BROKER_HEARTBEAT, ApiKeys.UPDATE_FEATURES);
    private static final Decision SEVERAL = new Decision(-1, 0); // of a request that is decided in parts

    private static final ThreadLocal<Object> HANDLED = new ThreadLocal<>();
    private static final Map<Object, Object> ASKED = Collections.synchronizedMap(new WeakHashMap<>()); // by write
    private static final Map<Object, Decision> DECIDED = Collections.synchronizedMap(new WeakHashMap<>()); // by request

    /** The end of the records that it went by, and how many it has written. */
    private record Decision(long offset, int written) {
    }

    private LiveDecisions() {
    }

    /** This thread handles a request from now on, or none; which it has handled until now. */
    public static Object handles(Object request) {
        Object before = HANDLED.get();
        HANDLED.set(request);
        return before;
    }

    /** A write waits for its turn. */
    public static void queued(Object write) {
        Object request = HANDLED.get();
        if (request != null) {
            ASKED.put(write, request);
        }
    }

    /** A write is done, or refused. */
    public static void decided(Object write, Object controller, Object result) {
        Object request = ASKED.remove(write);
        if (request != null) {
            LiveHooks.tell("answered", node -> DECIDED.merge(request, decision(controller, result), (one, other) -> SEVERAL));
        }
    }

    /** What is refused without a result is refused at once, by all that the controller has in memory. */
    private static Decision decision(Object controller, Object result) {
        ControllerResultAndOffset<?> found = (ControllerResultAndOffset<?>) result;
        if (found == null || found.offset() < 0) { // -1: all is committed, and nothing is new
            return new Decision((long) TraceInside.get(NEXT, TraceInside.get(OFFSETS, controller)), 0);
        }
        int written = found.records().size();
        return new Decision(found.offset() + 1 - written, written);
    }

    /** An answer is about to leave. */
    public static void answers(Object request, Object response) {
        Decision decision = DECIDED.remove(request);
        if (decision == null || decision == SEVERAL) {
            return;
        }
        LiveHooks.tell("answered", node -> {
            RequestHeader header = (RequestHeader) TraceInside.call(request, "header");
            if (UNTOLD.contains(header.apiKey())) {
                return;
            }
            RequestAndSize asked = (RequestAndSize) TraceInside.get(TraceInside.field(request.getClass(), "bodyAndSize"), request);
            short version = header.apiVersion();
            node.decided(header.apiKey().id, version, decision.offset, decision.written,
                text(asked.request.data(), version), text(((AbstractResponse) response).data(), version));
        });
    }

    private static String text(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(bytes), cache, version);
        return Base64.getEncoder().encodeToString(bytes.array());
    }
}
