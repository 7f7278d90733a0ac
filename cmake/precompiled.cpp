// Nothing: CMake compiles precompiled headers (Soma.cmake) for a target that has a source.
