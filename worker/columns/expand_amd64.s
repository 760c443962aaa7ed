#include "textflag.h"

// func expand32(dst, src *uint32, have int, valid *byte, groups int, top, fill uint32) (taken int)
TEXT ·expand32(SB), NOSPLIT, $0-56
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         have+16(FP), AX
	LEAQ         (SI)(AX*4), SI
	MOVQ         valid+24(FP), BX
	MOVQ         groups+32(FP), CX
	MOVL         top+40(FP), R9
	MOVL         fill+44(FP), AX
	VPBROADCASTD AX, Z1
	MOVQ         SI, R8

loop:
	MOVWLZX   (BX), AX
	ANDL      R9, AX
	POPCNTL   AX, DX
	KMOVW     AX, K1
	KMOVW     R9, K2
	SHLQ      $2, DX
	SUBQ      DX, SI
	VMOVDQA32 Z1, Z0
	VPEXPANDD (SI), K1, Z0
	VMOVDQU32 Z0, K2, (DI)
	MOVL      $0xffff, R9
	SUBQ      $2, BX
	SUBQ      $64, DI
	DECQ      CX
	JNZ       loop
	SUBQ      SI, R8
	SHRQ      $2, R8
	MOVQ      R8, taken+48(FP)
	VZEROUPPER
	RET

// func expand64(dst, src *uint64, have int, valid *byte, groups int, top uint32, fill uint64) (taken int)
TEXT ·expand64(SB), NOSPLIT, $0-64
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         have+16(FP), AX
	LEAQ         (SI)(AX*8), SI
	MOVQ         valid+24(FP), BX
	MOVQ         groups+32(FP), CX
	MOVL         top+40(FP), R9
	MOVQ         fill+48(FP), AX
	VPBROADCASTQ AX, Z1
	MOVQ         SI, R8

loop:
	MOVBLZX   (BX), AX
	ANDL      R9, AX
	POPCNTL   AX, DX
	KMOVW     AX, K1
	KMOVW     R9, K2
	SHLQ      $3, DX
	SUBQ      DX, SI
	VMOVDQA64 Z1, Z0
	VPEXPANDQ (SI), K1, Z0
	VMOVDQU64 Z0, K2, (DI)
	MOVL      $0xff, R9
	SUBQ      $1, BX
	SUBQ      $64, DI
	DECQ      CX
	JNZ       loop
	SUBQ      SI, R8
	SHRQ      $3, R8
	MOVQ      R8, taken+56(FP)
	VZEROUPPER
	RET
