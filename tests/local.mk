TEST_EXTENSIONS = .sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
SH_LOG_DRIVER = $(LOG_DRIVER)
AM_TESTS_ENVIRONMENT = srcdir='$(abs_top_srcdir)'; export srcdir;
if SANITIZER
AM_TESTS_ENVIRONMENT += LODE_SANITIZED=1; export LODE_SANITIZED;
endif
EXTRA_DIST += tests/tap.h tests/cli/lib.sh tests/threads.txt

include tests/base.mk
include tests/format.mk
include tests/convert.mk
include tests/kernels.mk
include tests/runtime.mk
include tests/text.mk
include tests/tools.mk
