# Lints of sources and documents, and the commands of the README.
LINTS = tests/lint/layering.sh tests/lint/symbols.sh tests/lint/tree.sh \
	tests/lint/man.sh
TESTS += $(LINTS)
dist_check_SCRIPTS += $(LINTS)

# Not in make check: it takes minutes, and more space than one expects.
TORTURE = 25 .
torture: $(bin_PROGRAMS) tests/gen/mkckpt
	srcdir='$(abs_top_srcdir)' $(SHELL) \
		$(top_srcdir)/tests/fault/torture.sh $(TORTURE)
.PHONY: torture
dist_noinst_SCRIPTS = tests/fault/torture.sh tests/cli/t_torture.sh
