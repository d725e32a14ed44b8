// Nothing: the target of this file exists for its precompiled headers.
