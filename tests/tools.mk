# Tests of this area; included by tests/local.mk.
