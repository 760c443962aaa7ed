#include "textflag.h"

// Loops for AVX-512's sums of four products of bytes. Weights are of three signed bytes each, of four weights the lowest ones first, then the middle
// ones, the highest ones and zeros: what they add up to is summed apart, and put together at the end. All sums are modulo 2^32.

// The reds, greens and blues of four pixels.
DATA byChannel<>+0(SB)/8, $0x0d0905010c080400
DATA byChannel<>+8(SB)/8, $0x0f0b07030e0a0602
GLOBL byChannel<>(SB), RODATA|NOPTR, $16

// Four pixels without their fourth bytes.
DATA dense<>+0(SB)/8, $0x0908060504020100
DATA dense<>+8(SB)/8, $0x808080800e0d0c0a
GLOBL dense<>(SB), RODATA|NOPTR, $16

// What sums begin with.
DATA rounds<>+0(SB)/4, $0x00200000
GLOBL rounds<>(SB), RODATA|NOPTR, $4

// pixels4 adds four weighted pixels of four rows.
#define pixels4(AT, DIGITS, LOW, MIDDLE, HIGH) \
	VMOVDQU         (AT), X0;                  \
	VINSERTI32X4    $1, (AT)(R9*1), Z0, Z0;    \
	VINSERTI32X4    $2, (AT)(R9*2), Z0, Z0;    \
	VINSERTI32X4    $3, (AT)(R12*1), Z0, Z0;   \
	VPSHUFB         Z31, Z0, Z0;               \
	VPDPBUSD.BCST   DIGITS, Z0, LOW;           \
	VPDPBUSD.BCST   4 DIGITS, Z0, MIDDLE;      \
	VPDPBUSD.BCST   8 DIGITS, Z0, HIGH

// together makes LOW the rounded sum.
#define together(LOW, MIDDLE, HIGH) \
	VPSLLD $8, MIDDLE, MIDDLE;  \
	VPSLLD $16, HIGH, HIGH;     \
	VPADDD MIDDLE, LOW, LOW;    \
	VPADDD HIGH, LOW, LOW;      \
	VPSRLD $22, LOW, LOW

// beginSums has the lowest sums, in Z4 to Z7, begin with Z29, and the middle and the highest ones, behind them, with nothing.
#define beginSums \
	VMOVDQA64 Z29, Z4;       \
	VMOVDQA64 Z29, Z5;       \
	VMOVDQA64 Z29, Z6;       \
	VMOVDQA64 Z29, Z7;       \
	VPXORD    Z8, Z8, Z8;    \
	VPXORD    Z9, Z9, Z9;    \
	VPXORD    Z10, Z10, Z10; \
	VPXORD    Z11, Z11, Z11; \
	VPXORD    Z12, Z12, Z12; \
	VPXORD    Z13, Z13, Z13; \
	VPXORD    Z14, Z14, Z14; \
	VPXORD    Z15, Z15, Z15

// endSums makes Z4 the bytes that the sums come to.
#define endSums \
	together(Z4, Z8, Z12);  \
	together(Z5, Z9, Z13);  \
	together(Z6, Z10, Z14); \
	together(Z7, Z11, Z15); \
	VPACKUSDW Z5, Z4, Z4;   \
	VPACKUSDW Z7, Z6, Z6;   \
	VPACKUSWB Z6, Z4, Z4

// func acrossVNNI(dst *byte, short int, rows *byte, long int, first *int32, digits *[4]int8, taps, most, n int)
TEXT ·acrossVNNI(SB), NOSPLIT, $0-72
	MOVQ rows+16(FP), SI
	MOVQ long+24(FP), R9
	MOVQ first+32(FP), BX
	MOVQ digits+40(FP), DX
	MOVQ taps+48(FP), R10
	SHLQ $2, R10             // bytes of digits of a value
	LEAQ (R9)(R9*2), R12
	MOVQ dst+0(FP), DI
	VBROADCASTI32X4 byChannel<>(SB), Z31
	VBROADCASTI32X4 dense<>(SB), Z30
	VPBROADCASTD    rounds<>(SB), Z29
	MOVL            $7, AX
	KMOVW           AX, K1   // three of four fours of bytes

values:
	// AX, R13, R14 and R15 are where the pixels of the next four values begin, DX and R8 the digits of the first and of the last.
	MOVLQSX   (BX), AX
	MOVLQSX   4(BX), R13
	MOVLQSX   8(BX), R14
	MOVLQSX   12(BX), R15
	LEAQ      (SI)(AX*4), AX
	LEAQ      (SI)(R13*4), R13
	LEAQ      (SI)(R14*4), R14
	LEAQ      (SI)(R15*4), R15
	LEAQ      (R10)(R10*2), R8
	ADDQ      DX, R8
	MOVQ      most+56(FP), R11
	beginSums

taps:
	pixels4(AX, (DX), Z4, Z8, Z12)
	pixels4(R13, (DX)(R10*1), Z5, Z9, Z13)
	pixels4(R14, (DX)(R10*2), Z6, Z10, Z14)
	pixels4(R15, (R8), Z7, Z11, Z15)
	ADDQ $16, AX
	ADDQ $16, R13
	ADDQ $16, R14
	ADDQ $16, R15
	ADDQ $16, DX
	ADDQ $16, R8
	SUBQ $4, R11
	JGT  taps

	endSums
	VPSHUFB       Z30, Z4, Z4
	MOVQ          short+8(FP), R11
	LEAQ          (DI)(R11*2), R13
	VMOVDQU32     X4, K1, (DI)
	VEXTRACTI32X4 $1, Z4, K1, (DI)(R11*1)
	VEXTRACTI32X4 $2, Z4, K1, (R13)
	VEXTRACTI32X4 $3, Z4, K1, (R13)(R11*1)
	ADDQ          $12, DI
	ADDQ          $16, BX
	MOVQ          most+56(FP), R11
	LEAQ          (DX)(R10*4), DX
	LEAQ          (R11*4), R11
	SUBQ          R11, DX
	SUBQ          $4, n+64(FP)
	JGT           values
	VZEROUPPER
	RET

// bytes16 adds sixteen weighted bytes of each of four rows.
#define bytes16(BYTES, LOW, MIDDLE, HIGH) \
	VPDPBUSD Z26, BYTES, LOW;    \
	VPDPBUSD Z27, BYTES, MIDDLE; \
	VPDPBUSD Z28, BYTES, HIGH

// func downVNNI(dst, rows *byte, stride int, digits *[4]int8, most, n int)
TEXT ·downVNNI(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         rows+8(FP), SI
	MOVQ         stride+16(FP), R8
	MOVQ         n+40(FP), DX
	LEAQ         (R8)(R8*2), R9
	VPBROADCASTD rounds<>(SB), Z29
	MOVQ         $-1, AX
	KMOVQ        AX, K1

bytes:
	CMPQ  DX, $64
	JGE   whole
	MOVQ  DX, CX
	MOVQ  $1, AX
	SHLQ  CX, AX
	DECQ  AX
	KMOVQ AX, K1       // those that are left

whole:
	MOVQ      SI, R10
	MOVQ      digits+24(FP), R11
	MOVQ      most+32(FP), R12
	beginSums

rows:
	VMOVDQU8.Z   (R10), K1, Z0
	VMOVDQU8.Z   (R10)(R8*1), K1, Z1
	VMOVDQU8.Z   (R10)(R8*2), K1, Z2
	VMOVDQU8.Z   (R10)(R9*1), K1, Z3
	VPBROADCASTD (R11), Z26
	VPBROADCASTD 4(R11), Z27
	VPBROADCASTD 8(R11), Z28
	VPUNPCKLBW   Z1, Z0, Z16
	VPUNPCKHBW   Z1, Z0, Z17
	VPUNPCKLBW   Z3, Z2, Z18
	VPUNPCKHBW   Z3, Z2, Z19
	VPUNPCKLWD   Z18, Z16, Z0
	VPUNPCKHWD   Z18, Z16, Z1
	VPUNPCKLWD   Z19, Z17, Z2
	VPUNPCKHWD   Z19, Z17, Z3
	bytes16(Z0, Z4, Z8, Z12)
	bytes16(Z1, Z5, Z9, Z13)
	bytes16(Z2, Z6, Z10, Z14)
	bytes16(Z3, Z7, Z11, Z15)
	LEAQ         (R10)(R8*4), R10
	ADDQ         $16, R11
	SUBQ         $4, R12
	JGT          rows

	endSums
	VMOVDQU8  Z4, K1, (DI)
	ADDQ      $64, DI
	ADDQ      $64, SI
	SUBQ      $64, DX
	JGT       bytes
	VZEROUPPER
	RET
