#include "textflag.h"

// Which of four weights each lane takes: two pixels of four lanes, or the next two.
DATA firstTwo<>+0(SB)/8, $0
DATA firstTwo<>+8(SB)/8, $0
DATA firstTwo<>+16(SB)/8, $0x0000000100000001
DATA firstTwo<>+24(SB)/8, $0x0000000100000001
GLOBL firstTwo<>(SB), RODATA|NOPTR, $32

// What sums begin with: half a unit of the result in one pixel, nothing in the others.
DATA rounding<>+0(SB)/8, $0x0020000000200000
DATA rounding<>+8(SB)/8, $0x0020000000200000
DATA rounding<>+16(SB)/8, $0
DATA rounding<>+24(SB)/8, $0
GLOBL rounding<>(SB), RODATA|NOPTR, $32

// The lowest bytes of red, green and blue, as the first three bytes or the next.
DATA evens<>+0(SB)/8, $0x8080808080080400
DATA evens<>+8(SB)/8, $0x8080808080808080
DATA evens<>+16(SB)/8, $0x8080808080080400
DATA evens<>+24(SB)/8, $0x8080808080808080
GLOBL evens<>(SB), RODATA|NOPTR, $32

DATA odds<>+0(SB)/8, $0x8080080400808080
DATA odds<>+8(SB)/8, $0x8080808080808080
DATA odds<>+16(SB)/8, $0x8080080400808080
DATA odds<>+24(SB)/8, $0x8080808080808080
GLOBL odds<>(SB), RODATA|NOPTR, $32

// The order of fours of bytes that packing mixes.
DATA unmixed<>+0(SB)/8, $0x0000000400000000
DATA unmixed<>+8(SB)/8, $0x0000000500000001
DATA unmixed<>+16(SB)/8, $0x0000000600000002
DATA unmixed<>+24(SB)/8, $0x0000000700000003
GLOBL unmixed<>(SB), RODATA|NOPTR, $32

// pixels2 adds four weighted pixels to SUM, which are summed in two.
#define pixels2(AT, WEIGHTS, SUM) \
	VBROADCASTI128 WEIGHTS, Y0;     \
	VPERMILPS      Y12, Y0, Y1;     \
	VPERMILPS      Y13, Y0, Y0;     \
	VPMOVZXBD      (AT)(R10*1), Y2; \
	VPMOVZXBD      8(AT)(R10*1), Y3; \
	VPMULLD        Y2, Y1, Y2;      \
	VPMULLD        Y3, Y0, Y3;      \
	VPADDD         Y2, SUM, SUM;    \
	VPADDD         Y3, SUM, SUM

// func acrossAVX2(dst, row *byte, first *int32, weights *uint32, taps, most, n int)
TEXT ·acrossAVX2(SB), NOSPLIT, $0-56
	MOVQ     dst+0(FP), DI
	MOVQ     row+8(FP), SI
	MOVQ     first+16(FP), BX
	MOVQ     weights+24(FP), DX
	MOVQ     taps+32(FP), R8
	MOVQ     n+48(FP), CX
	SHLQ     $2, R8 // bytes between the weights of values
	VMOVDQU  firstTwo<>(SB), Y12
	VPCMPEQD Y13, Y13, Y13
	VPSLLD   $1, Y13, Y13
	VPSUBD   Y13, Y12, Y13  // and two more
	VMOVDQU  rounding<>(SB), Y14
	VMOVDQU  evens<>(SB), Y15
	VMOVDQU  odds<>(SB), Y7

values:
	// R11, R12, R13 and AX are where the next four values' pixels begin, DX, R15, R9 and R14 their weights, and R10 is how far
	// from there the last four pixels, and weights, are.
	MOVLQSX (BX), R11
	MOVLQSX 4(BX), R12
	MOVLQSX 8(BX), R13
	MOVLQSX 12(BX), AX
	LEAQ    (SI)(R11*4), R11
	LEAQ    (SI)(R12*4), R12
	LEAQ    (SI)(R13*4), R13
	LEAQ    (SI)(AX*4), AX
	LEAQ    (DX)(R8*1), R15
	LEAQ    (DX)(R8*2), R9
	LEAQ    (R9)(R8*1), R14
	MOVQ    most+40(FP), R10
	SHLQ    $2, R10
	SUBQ    $16, R10
	VMOVDQA Y14, Y8
	VMOVDQA Y14, Y9
	VMOVDQA Y14, Y10
	VMOVDQA Y14, Y11

taps:
	pixels2(R11, (DX)(R10*1), Y8)
	pixels2(R12, (R15)(R10*1), Y9)
	pixels2(R13, (R9)(R10*1), Y10)
	pixels2(AX, (R14)(R10*1), Y11)
	SUBQ    $16, R10
	JGE     taps

	VINSERTI128  $1, X10, Y8, Y0
	VPERM2I128   $0x31, Y10, Y8, Y1
	VINSERTI128  $1, X11, Y9, Y2
	VPERM2I128   $0x31, Y11, Y9, Y3
	VPADDD       Y1, Y0, Y0
	VPADDD       Y3, Y2, Y2
	VPSRLD       $22, Y0, Y0
	VPSRLD       $22, Y2, Y2
	VPSHUFB      Y15, Y0, Y0
	VPSHUFB      Y7, Y2, Y2
	VPOR         Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VMOVQ        X0, (DI)
	VMOVQ        X1, 6(DI)
	ADDQ         $12, DI
	ADDQ         $16, BX
	LEAQ         (DX)(R8*4), DX
	SUBQ         $4, CX
	JGT          values
	VZEROUPPER
	RET

// func downAVX2(dst, rows *byte, stride int, weights *uint32, count, n int)
TEXT ·downAVX2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ stride+16(FP), R8
	MOVQ weights+24(FP), DX
	MOVQ count+32(FP), R9
	MOVQ n+40(FP), CX
	VPBROADCASTD rounding<>(SB), Y13
	VPCMPEQD     Y14, Y14, Y14
	VPSRLD       $24, Y14, Y14
	VMOVDQU      unmixed<>(SB), Y15

bytes:
	VMOVDQA Y13, Y8
	VMOVDQA Y13, Y9
	VMOVDQA Y13, Y10
	VMOVDQA Y13, Y11
	MOVQ    SI, R10
	MOVQ    DX, R11
	MOVQ    R9, R12

rows:
	VPBROADCASTD (R11), Y0
	VPMOVZXBD    (R10), Y1
	VPMOVZXBD    8(R10), Y2
	VPMOVZXBD    16(R10), Y3
	VPMOVZXBD    24(R10), Y4
	VPMULLD      Y0, Y1, Y1
	VPMULLD      Y0, Y2, Y2
	VPMULLD      Y0, Y3, Y3
	VPMULLD      Y0, Y4, Y4
	VPADDD       Y1, Y8, Y8
	VPADDD       Y2, Y9, Y9
	VPADDD       Y3, Y10, Y10
	VPADDD       Y4, Y11, Y11
	ADDQ         R8, R10
	ADDQ         $4, R11
	DECQ         R12
	JNZ          rows

	VPSRLD    $22, Y8, Y8
	VPSRLD    $22, Y9, Y9
	VPSRLD    $22, Y10, Y10
	VPSRLD    $22, Y11, Y11
	VPAND     Y14, Y8, Y8
	VPAND     Y14, Y9, Y9
	VPAND     Y14, Y10, Y10
	VPAND     Y14, Y11, Y11
	VPACKUSDW Y9, Y8, Y8
	VPACKUSDW Y11, Y10, Y10
	VPACKUSWB Y10, Y8, Y8
	VPERMD    Y8, Y15, Y8
	VMOVDQU   Y8, (DI)
	ADDQ      $32, DI
	ADDQ      $32, SI
	SUBQ      $32, CX
	JGT       bytes
	VZEROUPPER
	RET

// The reds of eight pixels, four of them in each half.
DATA reds<>+0(SB)/8, $0x8080800380808000
DATA reds<>+8(SB)/8, $0x8080800980808006
DATA reds<>+16(SB)/8, $0x8080800380808000
DATA reds<>+24(SB)/8, $0x8080800980808006
GLOBL reds<>(SB), RODATA|NOPTR, $32

// func lookUpAVX2(dst *float32, plane int, row *byte, tables *[3][256]float32, n int)
TEXT ·lookUpAVX2(SB), NOSPLIT, $0-40
	MOVQ     dst+0(FP), DI
	MOVQ     plane+8(FP), R8
	MOVQ     row+16(FP), SI
	MOVQ     tables+24(FP), R9
	MOVQ     n+32(FP), CX
	SHLQ     $2, R8
	LEAQ     1024(R9), R10
	LEAQ     2048(R9), R11
	VMOVDQU  reds<>(SB), Y13
	VPCMPEQD Y0, Y0, Y0
	VPSUBD   Y0, Y13, Y14   // greens
	VPSUBD   Y0, Y14, Y15   // blues

pixels:
	VMOVDQU     (SI), X0
	VINSERTI128 $1, 12(SI), Y0, Y0
	VPSHUFB     Y13, Y0, Y1
	VPSHUFB     Y14, Y0, Y2
	VPSHUFB     Y15, Y0, Y3
	VPCMPEQD    Y7, Y7, Y7
	VPCMPEQD    Y8, Y8, Y8
	VPCMPEQD    Y9, Y9, Y9
	VGATHERDPS  Y7, (R9)(Y1*4), Y4
	VGATHERDPS  Y8, (R10)(Y2*4), Y5
	VGATHERDPS  Y9, (R11)(Y3*4), Y6
	VMOVUPS     Y4, (DI)
	VMOVUPS     Y5, (DI)(R8*1)
	VMOVUPS     Y6, (DI)(R8*2)
	ADDQ        $24, SI
	ADDQ        $32, DI
	SUBQ        $8, CX
	JGT         pixels
	VZEROUPPER
	RET
