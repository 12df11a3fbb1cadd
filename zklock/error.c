/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

int zkl__error(zkl_error *reterr, int code, int zk_code, int sys_errno, const char *format, ...)
{
	va_list args;

	if (!reterr)
		return code;
	reterr->code = code;
	reterr->zk_code = zk_code;
	reterr->sys_errno = sys_errno;
	va_start(args, format);
	vsnprintf(reterr->message, sizeof reterr->message, format, args);
	va_end(args);
	for (char *c = reterr->message; *c; c++)
		if (*c == '\n' || *c == '\r')
			*c = ' ';
	return code;
}

const char *zkl_strerror(int code)
{
	switch (code) {
#define TEXT(name, number, text)                                                                                       \
	case number:                                                                                                   \
		return text;
		ZKL_ERROR_MAP(TEXT)
#undef TEXT
	case 0:
		return "success";
	default:
		return "unknown error";
	}
}

const char *zkl_error_name(int code)
{
	switch (code) {
#define NAME(name, number, text)                                                                                       \
	case number:                                                                                                   \
		return "ZKL_" #name;
		ZKL_ERROR_MAP(NAME)
#undef NAME
	case 0:
		return "ZKL_OK";
	default:
		return "ZKL_?";
	}
}

unsigned zkl_version(void)
{
	return ZKL_VERSION;
}
