#include "textflag.h"

// func unpackAVX2(dst *uint32, groups int, packed *byte, width, half int, table *unpackTable) (largest uint32)
TEXT ·unpackAVX2(SB), NOSPLIT, $0-52
	MOVQ    dst+0(FP), DI
	MOVQ    groups+8(FP), CX
	MOVQ    packed+16(FP), SI
	MOVQ    width+24(FP), AX
	MOVQ    half+32(FP), BX
	MOVQ    table+40(FP), DX
	VMOVDQU (DX), Y1   // bytes
	VMOVDQU 32(DX), Y2 // shifts
	VMOVDQU 64(DX), Y3 // mask
	VPXOR   Y4, Y4, Y4 // the largest so far, in each lane

loop:
	VMOVDQU     (SI), X0
	VINSERTI128 $1, (SI)(BX*1), Y0, Y0
	VPSHUFB     Y1, Y0, Y0
	VPSRLVD     Y2, Y0, Y0
	VPAND       Y3, Y0, Y0
	VPMAXUD     Y0, Y4, Y4
	VMOVDQU     Y0, (DI)
	ADDQ        AX, SI
	ADDQ        $32, DI
	DECQ        CX
	JNZ         loop

	VEXTRACTI128 $1, Y4, X0
	VPMAXUD      X0, X4, X4
	VPSHUFD      $0x4e, X4, X0
	VPMAXUD      X0, X4, X4
	VPSHUFD      $0xb1, X4, X0
	VPMAXUD      X0, X4, X4
	VMOVD        X4, AX
	MOVL         AX, largest+48(FP)
	VZEROUPPER
	RET
