#include "textflag.h"

// load has the lower halves of 16 int64 in Y0 and Y2, in order.
#define load \
	VMOVUPS (SI), Y0; \
	VMOVUPS 32(SI), Y1; \
	VMOVUPS 64(SI), Y2; \
	VMOVUPS 96(SI), Y3; \
	VSHUFPS $0x88, Y1, Y0, Y0; \
	VSHUFPS $0x88, Y3, Y2, Y2; \
	VPERMPD $0xd8, Y0, Y0; \
	VPERMPD $0xd8, Y2, Y2

// func narrow4AVX2(dst, src unsafe.Pointer, n int)
TEXT ·narrow4AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	load
	VMOVUPS Y0, (DI)
	VMOVUPS Y2, 32(DI)
	ADDQ    $128, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNE     loop
	VZEROUPPER
	RET

// func narrow2AVX2(dst, src unsafe.Pointer, n int)
TEXT ·narrow2AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	load
	VPACKUSDW Y2, Y0, Y0
	VPERMQ    $0xd8, Y0, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $128, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNE       loop
	VZEROUPPER
	RET
