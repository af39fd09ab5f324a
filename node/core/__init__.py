"""The sans-IO consensus core of KRaft.

``Replica.step(input, now_ms)`` takes one input and returns effects. It reads no clock, owns no
randomness, touches no file and no socket, and logs nothing. The duties of whoever drives it:

1. Run the effects of a step in order, and all of them before the next step.
2. ``PersistElectionState`` has reached the disk (file and directory fsynced) before any later
   effect of the step is run; a ``Send`` or ``Reply`` may depend on it.
3. After ``FlushLog(upto)`` step ``LogFlushed(upto)`` once the bytes are on disk, never earlier.
4. Give every ``Send`` exactly one ``ResponseReceived`` or ``SendFailed``, unless
   ``ResetConnections`` came in between.
5. Call ``step(Tick(), now_ms)`` no later than ``next_deadline_ms()``; ``now_ms`` may stand still
   but the core also survives it going backward.
6. On ``Fatal`` stop at once: the log or the quorum is not what it must be.
"""
