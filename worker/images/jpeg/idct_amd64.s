#include "textflag.h"

// eight is C in the eight lanes from OFFSET on.
#define eight(OFFSET, C) \
	DATA constants<>+(OFFSET+0)(SB)/4, $C; \
	DATA constants<>+(OFFSET+4)(SB)/4, $C; \
	DATA constants<>+(OFFSET+8)(SB)/4, $C; \
	DATA constants<>+(OFFSET+12)(SB)/4, $C; \
	DATA constants<>+(OFFSET+16)(SB)/4, $C; \
	DATA constants<>+(OFFSET+20)(SB)/4, $C; \
	DATA constants<>+(OFFSET+24)(SB)/4, $C; \
	DATA constants<>+(OFFSET+28)(SB)/4, $C

// What pairs of values are multiplied by: each sum of even and odd in idct.go, with what its products have in common added up.
eight(0, 0x20002000)   // 8192, 8192: t0 of values 0 and 4
eight(32, 0xe0002000)  // 8192, -8192: t1
eight(64, 0xd6301151)  // 4433, -10704: t2 of 2 and 6
eight(96, 0x115129cf)  // 10703, 4433: t3
eight(128, 0xe6dc08d4) // 2260, -6436: t0 of 1 and 3
eight(160, 0xd39d25a1) // 9633, -11363: t0 of 5 and 7
eight(192, 0xd39e1925) // 6437, -11362: t1
eight(224, 0x25a108d5) // 2261, 9633
eight(256, 0xf72d25a1) // 9633, -2259: t2
eight(288, 0xe6dcd39e) // -11362, -6436
eight(320, 0x25a12c63) // 11363, 9633: t3
eight(352, 0x08d41925) // 6437, 2260
eight(384, 1024)       // half of what pass 1 shifts out
eight(416, 33685504)   // half of what pass 2 shifts out, and 128
eight(448, 0x7fff7fff) // the greatest of 16 bits
eight(480, 0x80008000) // the least
GLOBL constants<>(SB), RODATA|NOPTR, $512

// Words 0 to 3 and 4 to 7 of each half in turns.
DATA inPairs<>+0(SB)/8, $0x0b0a030209080100
DATA inPairs<>+8(SB)/8, $0x0f0e07060d0c0504
DATA inPairs<>+16(SB)/8, $0x0b0a030209080100
DATA inPairs<>+24(SB)/8, $0x0f0e07060d0c0504
GLOBL inPairs<>(SB), RODATA|NOPTR, $32

// The order of columns in which those that pass 2 takes in pairs lie together.
DATA paired<>+0(SB)/8, $0x0000000400000000
DATA paired<>+8(SB)/8, $0x0000000600000002
DATA paired<>+16(SB)/8, $0x0000000300000001
DATA paired<>+24(SB)/8, $0x0000000700000005
GLOBL paired<>(SB), RODATA|NOPTR, $32

// Bytes of four rows of four columns, which lie column by column, row by row.
DATA byRows<>+0(SB)/8, $0x0d0905010c080400
DATA byRows<>+8(SB)/8, $0x0f0b07030e0a0602
DATA byRows<>+16(SB)/8, $0x0d0905010c080400
DATA byRows<>+24(SB)/8, $0x0f0b07030e0a0602
GLOBL byRows<>(SB), RODATA|NOPTR, $32

// halves makes PLUS and MINUS, of T of the even half and of the odd one, whose constants are at A and B.
#define halves(A, B, T, PLUS, MINUS) \
	VPMADDWD constants<>+A(SB), Y2, Y4; \
	VPMADDWD constants<>+B(SB), Y3, Y5; \
	VPADDD   Y5, Y4, Y4;                \
	VPADDD   Y4, T, PLUS;               \
	VPSUBD   Y4, T, MINUS

// transform transforms pairs of 16 bits, values 0 and 4, 2 and 6, 1 and 3, 5 and 7, in Y0 to Y3, eight times at once, to Y8 to Y15. It adds the
// constant at HALF, and shifts to the right by BITS.
#define transform(HALF, BITS) \
	VPMADDWD constants<>+0(SB), Y0, Y4;    \
	VPMADDWD constants<>+32(SB), Y0, Y5;   \
	VPMADDWD constants<>+64(SB), Y1, Y6;   \
	VPMADDWD constants<>+96(SB), Y1, Y7;   \
	VPADDD   constants<>+HALF(SB), Y4, Y4; \
	VPADDD   constants<>+HALF(SB), Y5, Y5; \
	VPADDD   Y7, Y4, Y0;                   \ // t10
	VPSUBD   Y7, Y4, Y7;                   \ // t13
	VPADDD   Y6, Y5, Y1;                   \ // t11
	VPSUBD   Y6, Y5, Y6;                   \ // t12
	halves(128, 160, Y7, Y11, Y12);        \
	halves(192, 224, Y6, Y10, Y13);        \
	halves(256, 288, Y1, Y9, Y14);         \
	halves(320, 352, Y0, Y8, Y15);         \
	VPSRAD   BITS, Y8, Y8;                 \
	VPSRAD   BITS, Y9, Y9;                 \
	VPSRAD   BITS, Y10, Y10;               \
	VPSRAD   BITS, Y11, Y11;               \
	VPSRAD   BITS, Y12, Y12;               \
	VPSRAD   BITS, Y13, Y13;               \
	VPSRAD   BITS, Y14, Y14;               \
	VPSRAD   BITS, Y15, Y15

// pairs makes Y pairs of the rows at A and B.
#define pairs(A, B, Y) \
	VMOVDQU   A(SI), Y;    \
	VPACKSSDW B(SI), Y, Y; \
	VPSHUFB   Y14, Y, Y;   \
	VPERMD    Y, Y15, Y

// func idctAVX2(dst *byte, stride int, block *[64]int32) (ok bool)
TEXT ·idctAVX2(SB), NOSPLIT, $0-25
	MOVQ    dst+0(FP), DI
	MOVQ    stride+8(FP), R8
	MOVQ    block+16(FP), SI
	VMOVDQU inPairs<>(SB), Y14
	VMOVDQU paired<>(SB), Y15
	pairs(0, 128, Y0)
	pairs(64, 192, Y1)
	pairs(32, 96, Y2)
	pairs(160, 224, Y3)
	transform(384, $11)

	// What does not fit 16 bits is no more than the greatest now, or the least. Neither is a column that a coefficient beyond 16 bits was in: one of
	// its values is at least four times the coefficient.
	VPACKSSDW Y12, Y8, Y8
	VPACKSSDW Y13, Y9, Y9
	VPACKSSDW Y14, Y10, Y10
	VPACKSSDW Y15, Y11, Y11
	VPMAXSW   Y9, Y8, Y0
	VPMAXSW   Y11, Y10, Y1
	VPMINSW   Y9, Y8, Y2
	VPMINSW   Y11, Y10, Y3
	VPMAXSW   Y1, Y0, Y0
	VPMINSW   Y3, Y2, Y2
	VPCMPEQW  constants<>+448(SB), Y0, Y0
	VPCMPEQW  constants<>+480(SB), Y2, Y2
	VPOR      Y2, Y0, Y0
	VPTEST    Y0, Y0
	JNZ       overflow

	// Rows become columns.
	VPUNPCKLDQ  Y9, Y8, Y0
	VPUNPCKHDQ  Y9, Y8, Y1
	VPUNPCKLDQ  Y11, Y10, Y2
	VPUNPCKHDQ  Y11, Y10, Y3
	VPUNPCKLQDQ Y2, Y0, Y4        // columns 0 and 4, and 1 and 3, of rows 0 to 3
	VPUNPCKHQDQ Y2, Y0, Y5        // 2 and 6, and 5 and 7
	VPUNPCKLQDQ Y3, Y1, Y6        // of rows 4 to 7
	VPUNPCKHQDQ Y3, Y1, Y7
	VINSERTI128 $1, X6, Y4, Y0
	VINSERTI128 $1, X7, Y5, Y1
	VPERM2I128  $0x31, Y6, Y4, Y2
	VPERM2I128  $0x31, Y7, Y5, Y3
	transform(416, $18)

	VPACKSSDW    Y9, Y8, Y8
	VPACKSSDW    Y11, Y10, Y10
	VPACKSSDW    Y13, Y12, Y12
	VPACKSSDW    Y15, Y14, Y14
	VPACKUSWB    Y10, Y8, Y8    // columns 0 to 3 of rows 0 to 3, and of 4 to 7
	VPACKUSWB    Y14, Y12, Y12  // columns 4 to 7
	VMOVDQU      byRows<>(SB), Y0
	VPSHUFB      Y0, Y8, Y8
	VPSHUFB      Y0, Y12, Y12
	VPUNPCKLDQ   Y12, Y8, Y0    // rows 0, 1, 4, 5
	VPUNPCKHDQ   Y12, Y8, Y1    // rows 2, 3, 6, 7
	VEXTRACTI128 $1, Y0, X2
	VEXTRACTI128 $1, Y1, X3
	LEAQ         (R8)(R8*2), R9
	LEAQ         (DI)(R8*4), R10
	VMOVQ        X0, (DI)
	VMOVHPS      X0, (DI)(R8*1)
	VMOVQ        X1, (DI)(R8*2)
	VMOVHPS      X1, (DI)(R9*1)
	VMOVQ        X2, (R10)
	VMOVHPS      X2, (R10)(R8*1)
	VMOVQ        X3, (R10)(R8*2)
	VMOVHPS      X3, (R10)(R9*1)
	MOVB         $1, ok+24(FP)
	VZEROUPPER
	RET

overflow:
	MOVB $0, ok+24(FP)
	VZEROUPPER
	RET
