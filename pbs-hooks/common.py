"""Settings, the library and on-fault, for all events."""

import pbs
