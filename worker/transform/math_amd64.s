#include "textflag.h"

// func clampFloat32AVX(dst, src *float32, n int, low, high float32)
//
// Of equal zeros and of NaN, maximum and minimum take the second operand: the value itself.
TEXT ·clampFloat32AVX(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS low+24(FP), Y1
	VBROADCASTSS high+28(FP), Y2

loop:
	VMOVUPS (SI), Y0
	VMAXPS  Y0, Y1, Y0
	VMINPS  Y0, Y2, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JG      loop
	VZEROUPPER
	RET

// func standardizeFloat32AVX(dst, src *float32, n int, mean, std float32)
TEXT ·standardizeFloat32AVX(SB), NOSPLIT, $0-32
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS mean+24(FP), Y1
	VBROADCASTSS std+28(FP), Y2

loop:
	VMOVUPS (SI), Y0
	VSUBPS  Y1, Y0, Y0
	VDIVPS  Y2, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JG      loop
	VZEROUPPER
	RET
