#include "textflag.h"

// widen makes 16 values of `bytes` bytes in turn int64.
#define widen(name, LOAD, bytes) \
TEXT name(SB), NOSPLIT, $0-24; \
	MOVQ dst+0(FP), DI; \
	MOVQ src+8(FP), SI; \
	MOVQ n+16(FP), CX; \
loop: \
	LOAD    (SI), Y0; \
	LOAD    (4*bytes)(SI), Y1; \
	LOAD    (8*bytes)(SI), Y2; \
	LOAD    (12*bytes)(SI), Y3; \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, 32(DI); \
	VMOVDQU Y2, 64(DI); \
	VMOVDQU Y3, 96(DI); \
	ADDQ    $(16*bytes), SI; \
	ADDQ    $128, DI; \
	SUBQ    $16, CX; \
	JNE     loop; \
	VZEROUPPER; \
	RET

// func widen1AVX2(dst, src unsafe.Pointer, n int)
widen(·widen1AVX2, VPMOVZXBQ, 1)

// func widen2AVX2(dst, src unsafe.Pointer, n int)
widen(·widen2AVX2, VPMOVZXWQ, 2)

// func widen4AVX2(dst, src unsafe.Pointer, n int)
widen(·widen4AVX2, VPMOVZXDQ, 4)
