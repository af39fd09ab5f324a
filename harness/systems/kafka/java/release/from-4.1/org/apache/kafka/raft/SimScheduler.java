package org.apache.kafka.raft;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.Scheduler;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * KafkaScheduler with one thread, without the thread: a task is done in the turn of its node in which its
 * time has come, one after the other, between what the raft client does.
 */
final class SimScheduler implements Scheduler {
    /** A task, and when it is due next. */
    private static final class Task extends FutureTask<Void> implements ScheduledFuture<Void> {
        private final Time time;
        private final long number;
        private final long periodMs; // 0 or below: once
        private long atMs;

        Task(Time time, Runnable work, long number, long atMs, long periodMs) {
            super(work, null);
            this.time = time;
            this.number = number;
            this.atMs = atMs;
            this.periodMs = periodMs;
        }

        /** Do it; whether it is to be done again. */
        boolean perform() {
            if (periodMs > 0) {
                return runAndReset();
            }
            run();
            return false;
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(atMs - time.hiResClockMs(), TimeUnit.MILLISECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(getDelay(TimeUnit.MILLISECONDS), other.getDelay(TimeUnit.MILLISECONDS));
        }
    }

    private static final Logger LOG = LoggerFactory.getLogger(KafkaScheduler.class);

    private final Time time;
    private final PriorityQueue<Task> tasks = new PriorityQueue<>(
        Comparator.<Task>comparingLong(task -> task.atMs).thenComparingLong(task -> task.number));
    private long numbers;

    SimScheduler(Time time) {
        this.time = time;
    }

    @Override
    public void startup() {
    }

    /** What is put off is not done any more. */
    @Override
    public void shutdown() {
        tasks.clear();
    }

    @Override
    public ScheduledFuture<?> schedule(String name, Runnable work, long delayMs, long periodMs) {
        Task task = new Task(time, () -> logged(name, work), numbers++, time.hiResClockMs() + Math.max(0, delayMs), periodMs);
        tasks.add(task);
        return task;
    }

    /** As in Kafka a task that fails is only logged. */
    private static void logged(String name, Runnable work) {
        try {
            work.run();
        } catch (Throwable e) {
            LOG.error("Uncaught exception in scheduled task '{}'", name, e);
        }
    }

    @Override
    public void resizeThreadPool(int size) {
        throw new UnsupportedOperationException("there are no threads, so there are not " + size);
    }

    /** Do all that is due; whether there was anything. */
    boolean work(long nowMs) {
        boolean any = false;
        while (!tasks.isEmpty() && tasks.peek().atMs <= nowMs) {
            Task task = tasks.poll();
            any = true;
            if (task.perform()) {
                task.atMs = nowMs + task.periodMs;
                tasks.add(task);
            }
        }
        return any;
    }

    long waitMs(long nowMs) {
        while (!tasks.isEmpty() && tasks.peek().isDone()) { // cancelled
            tasks.poll();
        }
        return tasks.isEmpty() ? Long.MAX_VALUE : Math.max(0, tasks.peek().atMs - nowMs);
    }
}
