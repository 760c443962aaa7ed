#include "textflag.h"

// Six bytes of each half, as two times three with zeros behind.
DATA threes<>+0(SB)/8, $0x8080808080020100
DATA threes<>+8(SB)/8, $0x8080808080050403
DATA threes<>+16(SB)/8, $0x8080808080080706
DATA threes<>+24(SB)/8, $0x80808080800b0a09
GLOBL threes<>(SB), RODATA|NOPTR, $32

#define prepare VMOVDQU threes<>(SB), Y4

// spread puts each three of the bytes that were loaded apart.
#define spread \
	VPSHUFB Y4, Y0, Y0; \
	VPSHUFB Y4, Y1, Y1; \
	VPSHUFB Y4, Y2, Y2; \
	VPSHUFB Y4, Y3, Y3

// widen makes 16 values of `bytes` bytes in turn int64.
#define widen(name, PREPARE, LOAD, bytes, SPREAD, STORE, END) \
TEXT name(SB), NOSPLIT, $0-24; \
	MOVQ dst+0(FP), DI; \
	MOVQ src+8(FP), SI; \
	MOVQ n+16(FP), CX; \
	PREPARE; \
loop: \
	LOAD  (SI), Y0; \
	LOAD  (4*bytes)(SI), Y1; \
	LOAD  (8*bytes)(SI), Y2; \
	LOAD  (12*bytes)(SI), Y3; \
	SPREAD; \
	STORE Y0, (DI); \
	STORE Y1, 32(DI); \
	STORE Y2, 64(DI); \
	STORE Y3, 96(DI); \
	ADDQ  $(16*bytes), SI; \
	ADDQ  $128, DI; \
	SUBQ  $16, CX; \
	JNE   loop; \
	VZEROUPPER; \
	END; \
	RET

// func widen1AVX2(dst, src unsafe.Pointer, n int)
widen(·widen1AVX2, NOP, VPMOVZXBQ, 1, NOP, VMOVDQU, NOP)

// func widen2AVX2(dst, src unsafe.Pointer, n int)
widen(·widen2AVX2, NOP, VPMOVZXWQ, 2, NOP, VMOVDQU, NOP)

// func widen3AVX2(dst, src unsafe.Pointer, n int)
widen(·widen3AVX2, prepare, VBROADCASTI128, 3, spread, VMOVDQU, NOP)

// func widen4AVX2(dst, src unsafe.Pointer, n int)
widen(·widen4AVX2, NOP, VPMOVZXDQ, 4, NOP, VMOVDQU, NOP)

// Whoever reads what was written past the caches may be another CPU, which sees it in order only behind a fence.

// func widen1Past(dst, src unsafe.Pointer, n int)
widen(·widen1Past, NOP, VPMOVZXBQ, 1, NOP, VMOVNTDQ, SFENCE)

// func widen2Past(dst, src unsafe.Pointer, n int)
widen(·widen2Past, NOP, VPMOVZXWQ, 2, NOP, VMOVNTDQ, SFENCE)

// func widen3Past(dst, src unsafe.Pointer, n int)
widen(·widen3Past, prepare, VBROADCASTI128, 3, spread, VMOVNTDQ, SFENCE)

// func widen4Past(dst, src unsafe.Pointer, n int)
widen(·widen4Past, NOP, VPMOVZXDQ, 4, NOP, VMOVNTDQ, SFENCE)

// func copy8Past(dst, src unsafe.Pointer, n int)
widen(·copy8Past, NOP, VMOVDQU, 8, NOP, VMOVNTDQ, SFENCE)
