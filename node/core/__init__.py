"""The core does the consensus of KRaft without any input or output of its own.

``Replica.step(input, now_ms)`` takes one input and returns effects. It reads no clock, owns no
randomness, touches no file and no socket, and logs nothing. The duties of whoever drives it:

1. Run the effects of a step in order, and all of them before the next step.
2. ``PersistElectionState`` has reached the disk (file and directory fsynced) before any later
   effect of the step is run; a ``Send`` or ``Reply`` may depend on it.
3. After ``FlushLog(upto)`` step ``LogFlushed(upto)`` once the bytes are on disk, never earlier.
   Several may be answered by one; but none stepped after a ``TruncateLog`` may speak of the log
   before it.
4. Give every ``Send`` exactly one ``ResponseReceived`` or ``SendFailed``, unless
   ``ResetConnections`` came in between. After a ``SendFailed`` the connection is closed.
5. Number incoming connections so that within one number each request was sent after the reply to
   the one before; the read barrier is only as good as that. Never use a number twice.
6. Call ``step(Tick(), now_ms)`` no later than ``next_deadline_ms()``; ``now_ms`` may stand still
   but the core also survives it going backward.
7. Trace what the core cannot know: each batch appended as leader (its checksum comes into being
   when it is encoded), the start, and the making and deleting of snapshots. All other traces of
   the quorum are effects.
8. After ``InstallSnapshot`` step ``SnapshotInstalled`` or ``SnapshotRejected`` before any other
   input; after making a snapshot or cleaning the log step ``SnapshotsChanged`` likewise. Never
   clean beyond the high watermark or the newest snapshot.
9. On ``Fatal`` stop at once: the log or the quorum is not what it must be.

``Replica`` only dispatches. Each duty is a handler of its own: it gets the shared ``state`` and, by
name, the handlers that it needs. ``parts`` names their classes, ``assembly`` builds them and lists
who hears of an event inside (``events``): a lost leadership, a commit, another voter set. All
handlers of a leader are in ``leader``, those of a follower in ``follower``. Decisions are small
methods, so that a mutant replaces the class of one handler and overrides one of them.
"""
