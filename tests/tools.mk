# Lints of sources and documents, and the commands of the README.
LINTS = tests/lint/layering.sh tests/lint/symbols.sh tests/lint/tree.sh \
	tests/lint/man.sh
TESTS += $(LINTS)
dist_check_SCRIPTS += $(LINTS)
