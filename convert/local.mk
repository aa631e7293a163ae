# The program lode.
