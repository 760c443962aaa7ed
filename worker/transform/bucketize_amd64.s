#include "textflag.h"

// func bucketFloat32AVX512(dst *int32, src *float32, n int, t *borderTable[int32])
//
// Sixteen values at a time go through the steps of bucketFloat32 and borderTable.count.
TEXT ·bucketFloat32AVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), DX

	VPBROADCASTD 0(DX), Z16           // base
	VMOVQ        8(DX), X17           // shift
	MOVQ         16(DX), R8           // before
	MOVQ         24(DX), AX
	DECQ         AX
	VPBROADCASTD AX, Z18              // the last cell
	MOVQ         40(DX), R9           // half
	MOVQ         48(DX), R10          // sorted
	MOVL         $0x7fffffff, AX
	VPBROADCASTD AX, Z19
	MOVL         $0x7f800000, AX
	VPBROADCASTD AX, Z20              // +Inf

loop:
	VMOVDQU32 (SI), Z0
	VPSRAD    $31, Z0, Z1
	VPANDD    Z19, Z0, Z0
	VPCMPUD   $6, Z20, Z0, K1
	VPXORD    Z1, Z0, Z0
	VPSUBD    Z1, Z0, Z0
	VMOVDQA32 Z19, K1, Z0             // the keys: NaN's is the greatest

	VPMAXSD    Z16, Z0, Z1
	VPSUBD     Z16, Z1, Z1
	VPSRLD     X17, Z1, Z1
	VPMINUD    Z18, Z1, Z1
	KXNORW     K0, K0, K2
	VPXORD     Z2, Z2, Z2
	VPGATHERDD (R8)(Z1*4), K2, Z2     // borders before the cell

	MOVQ R9, AX

half:
	TESTQ        AX, AX
	JZ           store
	LEAQ         -4(R10)(AX*4), R11
	KXNORW       K0, K0, K2
	VPXORD       Z3, Z3, Z3
	VPGATHERDD   (R11)(Z2*4), K2, Z3
	VPCMPD       $1, Z0, Z3, K3
	VPBROADCASTD AX, Z4
	VPADDD       Z4, Z2, K3, Z2
	SHRQ         $1, AX
	JMP          half

store:
	VMOVDQU32 Z2, (DI)
	ADDQ      $64, SI
	ADDQ      $64, DI
	SUBQ      $16, CX
	JG        loop
	VZEROUPPER
	RET

// func bucketFloat32AVX2(dst *int32, src *float32, n int, t *borderTable[int32])
//
// Eight values at a time go through the steps of bucketFloat32AVX512.
TEXT ·bucketFloat32AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ t+24(FP), DX

	VPBROADCASTD 0(DX), Y15           // base
	VMOVQ        8(DX), X14           // shift
	MOVQ         16(DX), R8           // before
	MOVQ         24(DX), AX
	DECQ         AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13             // the last cell
	MOVQ         40(DX), R9           // half
	MOVQ         48(DX), R10          // sorted
	VPCMPEQD     Y10, Y10, Y10
	VPSRLD       $1, Y10, Y12         // 0x7fffffff
	VPSLLD       $24, Y12, Y11
	VPSRLD       $1, Y11, Y11         // +Inf

loop:
	VMOVDQU   (SI), Y0
	VPSRAD    $31, Y0, Y1
	VPAND     Y12, Y0, Y0
	VPCMPGTD  Y11, Y0, Y5
	VPXOR     Y1, Y0, Y0
	VPSUBD    Y1, Y0, Y0
	VBLENDVPS Y5, Y12, Y0, Y0         // the keys: NaN's is the greatest

	VPMAXSD    Y15, Y0, Y1
	VPSUBD     Y15, Y1, Y1
	VPSRLD     X14, Y1, Y1
	VPMINUD    Y13, Y1, Y1
	VMOVDQA    Y10, Y5
	VPGATHERDD Y5, (R8)(Y1*4), Y2     // borders before the cell

	MOVQ R9, AX

half:
	TESTQ        AX, AX
	JZ           store
	LEAQ         -4(R10)(AX*4), R11
	VMOVDQA      Y10, Y5
	VPGATHERDD   Y5, (R11)(Y2*4), Y3
	VPCMPGTD     Y3, Y0, Y3
	VMOVD        AX, X4
	VPBROADCASTD X4, Y4
	VPAND        Y3, Y4, Y4
	VPADDD       Y4, Y2, Y2
	SHRQ         $1, AX
	JMP          half

store:
	VMOVDQU Y2, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JG      loop
	VZEROUPPER
	RET
