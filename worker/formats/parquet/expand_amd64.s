#include "textflag.h"

// func expand32AVX512(dst, src *uint32, have int, valid *byte, groups int, top, fill uint32) (taken int)
TEXT ·expand32AVX512(SB), NOSPLIT, $0-56
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

// func expand64AVX512(dst, src *uint64, have int, valid *byte, groups int, top uint32, fill uint64) (taken int)
TEXT ·expand64AVX512(SB), NOSPLIT, $0-64
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

// func expand32AVX2(dst, src *uint32, have int, valid *byte, groups int, fill uint32, places *[256][8]int8) (taken int)
TEXT ·expand32AVX2(SB), NOSPLIT, $0-64
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         have+16(FP), AX
	LEAQ         (SI)(AX*4), SI
	MOVQ         valid+24(FP), BX
	MOVQ         groups+32(FP), CX
	MOVL         fill+40(FP), AX
	VMOVD        AX, X1
	VPBROADCASTD X1, Y1
	MOVQ         places+48(FP), R10
	MOVQ         SI, R8

loop:
	MOVBLZX   (BX), AX
	POPCNTL   AX, DX
	SHLQ      $2, DX
	SUBQ      DX, SI
	VPMOVSXBD (R10)(AX*8), Y0
	VPERMD    (SI), Y0, Y2
	VBLENDVPS Y0, Y1, Y2, Y2 // negative places are those of nulls
	VMOVDQU   Y2, (DI)
	DECQ      BX
	SUBQ      $32, DI
	DECQ      CX
	JNZ       loop
	SUBQ      SI, R8
	SHRQ      $2, R8
	MOVQ      R8, taken+56(FP)
	VZEROUPPER
	RET

// group writes the four values that the bits in `bits` stand for; it uses DX, Y0 and Y2.
#define group(bits, to) \
	POPCNTL   bits, DX; \
	SHLQ      $3, DX; \
	SUBQ      DX, SI; \
	VPMOVSXBD (R10)(bits*8), Y0; \
	VPERMD    (SI), Y0, Y2; \
	VBLENDVPS Y0, Y1, Y2, Y2; \
	VMOVDQU   Y2, to

// func expand64AVX2(dst, src *uint64, have int, valid *byte, groups int, fill uint64, places *[16][8]int8) (taken int)
TEXT ·expand64AVX2(SB), NOSPLIT, $0-64
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         have+16(FP), AX
	LEAQ         (SI)(AX*8), SI
	MOVQ         valid+24(FP), BX
	MOVQ         groups+32(FP), CX
	MOVQ         fill+40(FP), AX
	VMOVQ        AX, X1
	VPBROADCASTQ X1, Y1
	MOVQ         places+48(FP), R10
	MOVQ         SI, R8

loop:
	MOVBLZX (BX), AX
	MOVL    AX, R11
	SHRL    $4, R11
	ANDL    $15, AX
	group(R11, 32(DI))
	group(AX, (DI))
	DECQ    BX
	SUBQ    $64, DI
	DECQ    CX
	JNZ     loop
	SUBQ    SI, R8
	SHRQ    $3, R8
	MOVQ    R8, taken+56(FP)
	VZEROUPPER
	RET
