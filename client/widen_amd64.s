#include "textflag.h"

// widen makes 16 values of `bytes` bytes in turn int64.
#define widen(name, LOAD, bytes, STORE, END) \
TEXT name(SB), NOSPLIT, $0-24; \
	MOVQ dst+0(FP), DI; \
	MOVQ src+8(FP), SI; \
	MOVQ n+16(FP), CX; \
loop: \
	LOAD  (SI), Y0; \
	LOAD  (4*bytes)(SI), Y1; \
	LOAD  (8*bytes)(SI), Y2; \
	LOAD  (12*bytes)(SI), Y3; \
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
widen(·widen1AVX2, VPMOVZXBQ, 1, VMOVDQU, NOP)

// func widen2AVX2(dst, src unsafe.Pointer, n int)
widen(·widen2AVX2, VPMOVZXWQ, 2, VMOVDQU, NOP)

// func widen4AVX2(dst, src unsafe.Pointer, n int)
widen(·widen4AVX2, VPMOVZXDQ, 4, VMOVDQU, NOP)

// Whoever reads what was written past the caches may be another CPU, which sees it in order only behind a fence.

// func widen1Past(dst, src unsafe.Pointer, n int)
widen(·widen1Past, VPMOVZXBQ, 1, VMOVNTDQ, SFENCE)

// func widen2Past(dst, src unsafe.Pointer, n int)
widen(·widen2Past, VPMOVZXWQ, 2, VMOVNTDQ, SFENCE)

// func widen4Past(dst, src unsafe.Pointer, n int)
widen(·widen4Past, VPMOVZXDQ, 4, VMOVNTDQ, SFENCE)

// func copy8Past(dst, src unsafe.Pointer, n int)
widen(·copy8Past, VMOVDQU, 8, VMOVNTDQ, SFENCE)

// Six bytes of each half, as two times three with zeros behind.
DATA threes<>+0(SB)/8, $0x8080808080020100
DATA threes<>+8(SB)/8, $0x8080808080050403
DATA threes<>+16(SB)/8, $0x8080808080080706
DATA threes<>+24(SB)/8, $0x80808080800b0a09
GLOBL threes<>(SB), RODATA|NOPTR, $32

// unpack makes 16 values of 3 bytes in turn int64.
#define unpack(name, STORE, END) \
TEXT name(SB), NOSPLIT, $0-24; \
	MOVQ    dst+0(FP), DI; \
	MOVQ    src+8(FP), SI; \
	MOVQ    n+16(FP), CX; \
	VMOVDQU threes<>(SB), Y4; \
loop: \
	VBROADCASTI128 (SI), Y0; \
	VBROADCASTI128 12(SI), Y1; \
	VBROADCASTI128 24(SI), Y2; \
	VBROADCASTI128 36(SI), Y3; \
	VPSHUFB        Y4, Y0, Y0; \
	VPSHUFB        Y4, Y1, Y1; \
	VPSHUFB        Y4, Y2, Y2; \
	VPSHUFB        Y4, Y3, Y3; \
	STORE          Y0, (DI); \
	STORE          Y1, 32(DI); \
	STORE          Y2, 64(DI); \
	STORE          Y3, 96(DI); \
	ADDQ           $48, SI; \
	ADDQ           $128, DI; \
	SUBQ           $16, CX; \
	JNE            loop; \
	VZEROUPPER; \
	END; \
	RET

// func unpackAVX2(dst, src unsafe.Pointer, n int)
unpack(·unpackAVX2, VMOVDQU, NOP)

// func unpackPast(dst, src unsafe.Pointer, n int)
unpack(·unpackPast, VMOVNTDQ, SFENCE)
