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

// func addAVX2x4(dst unsafe.Pointer, groups int, packed *byte, width, half int, table *unpackTable, last, least int64) (sum int64)
TEXT ·addAVX2x4(SB), NOSPLIT, $0-72
	MOVQ         dst+0(FP), DI
	MOVQ         groups+8(FP), CX
	MOVQ         packed+16(FP), SI
	MOVQ         width+24(FP), AX
	MOVQ         half+32(FP), BX
	MOVQ         table+40(FP), DX
	VMOVDQU      (DX), Y1   // bytes
	VMOVDQU      32(DX), Y2 // shifts
	VMOVDQU      64(DX), Y3 // mask
	VPBROADCASTD last+48(FP), Y4
	VPBROADCASTD least+56(FP), Y5

add4:
	VMOVDQU      (SI), X0
	VINSERTI128  $1, (SI)(BX*1), Y0, Y0
	VPSHUFB      Y1, Y0, Y0
	VPSRLVD      Y2, Y0, Y0
	VPAND        Y3, Y0, Y0
	VPADDD       Y5, Y0, Y0
	VPSLLDQ      $4, Y0, Y6        // sums in each half
	VPADDD       Y6, Y0, Y0
	VPSLLDQ      $8, Y0, Y6
	VPADDD       Y6, Y0, Y0
	VPSHUFD      $0xff, Y0, Y6     // each half's last
	VPERM2I128   $0x08, Y6, Y6, Y7 // the first's, for the second
	VPADDD       Y7, Y0, Y0
	VPADDD       Y4, Y0, Y8
	VMOVDQU      Y8, (DI)
	VPSHUFD      $0xff, Y0, Y6
	VPERMQ       $0xff, Y6, Y6     // the sum of all eight
	VPADDD       Y6, Y4, Y4
	ADDQ         AX, SI
	ADDQ         $32, DI
	DECQ         CX
	JNZ          add4
	VMOVQ        X4, AX
	MOVQ         AX, sum+64(FP)
	VZEROUPPER
	RET

// func addAVX2x8(dst unsafe.Pointer, groups int, packed *byte, width, half int, table *unpackTable, last, least int64) (sum int64)
TEXT ·addAVX2x8(SB), NOSPLIT, $0-72
	MOVQ         dst+0(FP), DI
	MOVQ         groups+8(FP), CX
	MOVQ         packed+16(FP), SI
	MOVQ         width+24(FP), AX
	MOVQ         half+32(FP), BX
	MOVQ         table+40(FP), DX
	VMOVDQU      (DX), Y1   // bytes
	VMOVDQU      32(DX), Y2 // shifts
	VMOVDQU      64(DX), Y3 // mask
	VPBROADCASTQ last+48(FP), Y4
	VPBROADCASTQ least+56(FP), Y5
	VPXOR        Y9, Y9, Y9

add8:
	VMOVDQU      (SI), X0
	VINSERTI128  $1, (SI)(BX*1), Y0, Y0
	VPSHUFB      Y1, Y0, Y0
	VPSRLVD      Y2, Y0, Y0
	VPAND        Y3, Y0, Y0
	VEXTRACTI128 $1, Y0, X6
	VPMOVZXDQ    X0, Y0
	VPMOVZXDQ    X6, Y6
	VPADDQ       Y5, Y0, Y0
	VPADDQ       Y5, Y6, Y6
	VPSLLDQ      $8, Y0, Y7         // sums of two
	VPSLLDQ      $8, Y6, Y8
	VPADDQ       Y7, Y0, Y0
	VPADDQ       Y8, Y6, Y6
	VPERMQ       $0x55, Y0, Y7      // the first two's, for the others
	VPERMQ       $0x55, Y6, Y8
	VPBLENDD     $0xf0, Y7, Y9, Y7
	VPBLENDD     $0xf0, Y8, Y9, Y8
	VPADDQ       Y7, Y0, Y0
	VPADDQ       Y8, Y6, Y6
	VPERMQ       $0xff, Y0, Y7      // the sums of four
	VPERMQ       $0xff, Y6, Y8
	VPADDQ       Y4, Y0, Y0
	VPADDQ       Y7, Y4, Y4
	VPADDQ       Y4, Y6, Y6
	VPADDQ       Y8, Y4, Y4
	VMOVDQU      Y0, (DI)
	VMOVDQU      Y6, 32(DI)
	ADDQ         AX, SI
	ADDQ         $64, DI
	DECQ         CX
	JNZ          add8
	VMOVQ        X4, AX
	MOVQ         AX, sum+64(FP)
	VZEROUPPER
	RET
