/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/cmd.h"

int
cmd_extract(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 1;
}
