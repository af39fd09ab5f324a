"""Judge transactions over lists by the cycles of what came before what."""
