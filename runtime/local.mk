include runtime/kernels.mk
include runtime/text.mk
include runtime/engine.mk
