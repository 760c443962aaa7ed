#include "textflag.h"

// times is the constant C in the lanes from OFFSET on.
#define times(OFFSET, C) \
	DATA constants<>+(OFFSET+0)(SB)/4, $C; \
	DATA constants<>+(OFFSET+4)(SB)/4, $C; \
	DATA constants<>+(OFFSET+8)(SB)/4, $C; \
	DATA constants<>+(OFFSET+12)(SB)/4, $C; \
	DATA constants<>+(OFFSET+16)(SB)/4, $C; \
	DATA constants<>+(OFFSET+20)(SB)/4, $C; \
	DATA constants<>+(OFFSET+24)(SB)/4, $C; \
	DATA constants<>+(OFFSET+28)(SB)/4, $C

times(0, 2446)     // f0298
times(32, -3196)   // -f0390
times(64, 4433)    // f0541
times(96, 6270)    // f0765
times(128, -7373)  // -f0899
times(160, 9633)   // f1175
times(192, 12299)  // f1501
times(224, -15137) // -f1847
times(256, -16069) // -f1961
times(288, 16819)  // f2053
times(320, -20995) // -f2562
times(352, 25172)  // f3072
times(384, 1024)   // half of what pass 1 shifts out
times(416, 33685504) // half of what pass 2 shifts out, and 128
GLOBL constants<>(SB), RODATA|NOPTR, $448

// Bytes of four rows of four columns, which lie column by column, row by row.
DATA byRows<>+0(SB)/8, $0x0d0905010c080400
DATA byRows<>+8(SB)/8, $0x0f0b07030e0a0602
DATA byRows<>+16(SB)/8, $0x0d0905010c080400
DATA byRows<>+24(SB)/8, $0x0f0b07030e0a0602
GLOBL byRows<>(SB), RODATA|NOPTR, $32

// transform transforms Y0 to Y7, eight times at once, without the last shift: the sums and differences of the halves are in Y8 to Y15. It adds
// the constant at HALF.
#define transform(HALF) \
	VPADDD  Y2, Y6, Y8;                      \ // z1
	VPMULLD constants<>+64(SB), Y8, Y8;      \
	VPMULLD constants<>+224(SB), Y6, Y6;     \
	VPMULLD constants<>+96(SB), Y2, Y2;      \
	VPADDD  Y6, Y8, Y6;                      \ // t2
	VPADDD  Y2, Y8, Y2;                      \ // t3
	VPADDD  Y0, Y4, Y8;                      \
	VPSUBD  Y4, Y0, Y9;                      \
	VPSLLD  $13, Y8, Y8;                     \ // t0
	VPSLLD  $13, Y9, Y9;                     \ // t1
	VPADDD  constants<>+HALF(SB), Y8, Y8;    \
	VPADDD  constants<>+HALF(SB), Y9, Y9;    \
	VPADDD  Y2, Y8, Y0;                      \ // t10
	VPSUBD  Y2, Y8, Y2;                      \ // t13
	VPADDD  Y6, Y9, Y4;                      \ // t11
	VPSUBD  Y6, Y9, Y6;                      \ // t12
	VPADDD  Y7, Y3, Y8;                      \ // z3
	VPADDD  Y5, Y1, Y9;                      \ // z4
	VPADDD  Y8, Y9, Y10;                     \
	VPMULLD constants<>+160(SB), Y10, Y10;   \ // z5
	VPADDD  Y7, Y1, Y11;                     \
	VPMULLD constants<>+128(SB), Y11, Y11;   \ // z1
	VPADDD  Y5, Y3, Y12;                     \
	VPMULLD constants<>+320(SB), Y12, Y12;   \ // z2
	VPMULLD constants<>+256(SB), Y8, Y8;     \
	VPMULLD constants<>+32(SB), Y9, Y9;      \
	VPADDD  Y10, Y8, Y8;                     \ // z3
	VPADDD  Y10, Y9, Y9;                     \ // z4
	VPMULLD constants<>+0(SB), Y7, Y7;       \
	VPMULLD constants<>+288(SB), Y5, Y5;     \
	VPMULLD constants<>+352(SB), Y3, Y3;     \
	VPMULLD constants<>+192(SB), Y1, Y1;     \
	VPADDD  Y11, Y7, Y7;                     \
	VPADDD  Y12, Y5, Y5;                     \
	VPADDD  Y12, Y3, Y3;                     \
	VPADDD  Y11, Y1, Y1;                     \
	VPADDD  Y8, Y7, Y7;                      \ // t0
	VPADDD  Y9, Y5, Y5;                      \ // t1
	VPADDD  Y8, Y3, Y3;                      \ // t2
	VPADDD  Y9, Y1, Y1;                      \ // t3
	VPADDD  Y1, Y0, Y8;                      \
	VPSUBD  Y1, Y0, Y15;                     \
	VPADDD  Y3, Y4, Y9;                      \
	VPSUBD  Y3, Y4, Y14;                     \
	VPADDD  Y5, Y6, Y10;                     \
	VPSUBD  Y5, Y6, Y13;                     \
	VPADDD  Y7, Y2, Y11;                     \
	VPSUBD  Y7, Y2, Y12

// shifted shifts Y8 to Y15 to the right.
#define shifted(BITS) \
	VPSRAD BITS, Y8, Y8;   \
	VPSRAD BITS, Y9, Y9;   \
	VPSRAD BITS, Y10, Y10; \
	VPSRAD BITS, Y11, Y11; \
	VPSRAD BITS, Y12, Y12; \
	VPSRAD BITS, Y13, Y13; \
	VPSRAD BITS, Y14, Y14; \
	VPSRAD BITS, Y15, Y15

// func idctAVX2(dst *byte, stride int, block *[64]int32)
TEXT ·idctAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), R8
	MOVQ block+16(FP), SI
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VMOVDQU 128(SI), Y4
	VMOVDQU 160(SI), Y5
	VMOVDQU 192(SI), Y6
	VMOVDQU 224(SI), Y7
	transform(384)
	shifted($11)

	// Rows become columns.
	VPUNPCKLDQ  Y9, Y8, Y0
	VPUNPCKHDQ  Y9, Y8, Y1
	VPUNPCKLDQ  Y11, Y10, Y2
	VPUNPCKHDQ  Y11, Y10, Y3
	VPUNPCKLDQ  Y13, Y12, Y4
	VPUNPCKHDQ  Y13, Y12, Y5
	VPUNPCKLDQ  Y15, Y14, Y6
	VPUNPCKHDQ  Y15, Y14, Y7
	VPUNPCKLQDQ Y2, Y0, Y8       // columns 0 and 4 of rows 0 to 3
	VPUNPCKHQDQ Y2, Y0, Y9       // 1 and 5
	VPUNPCKLQDQ Y3, Y1, Y10      // 2 and 6
	VPUNPCKHQDQ Y3, Y1, Y11      // 3 and 7
	VPUNPCKLQDQ Y6, Y4, Y12      // of rows 4 to 7
	VPUNPCKHQDQ Y6, Y4, Y13
	VPUNPCKLQDQ Y7, Y5, Y14
	VPUNPCKHQDQ Y7, Y5, Y15
	VINSERTI128 $1, X12, Y8, Y0
	VINSERTI128 $1, X13, Y9, Y1
	VINSERTI128 $1, X14, Y10, Y2
	VINSERTI128 $1, X15, Y11, Y3
	VPERM2I128  $0x31, Y12, Y8, Y4
	VPERM2I128  $0x31, Y13, Y9, Y5
	VPERM2I128  $0x31, Y14, Y10, Y6
	VPERM2I128  $0x31, Y15, Y11, Y7
	transform(416)
	shifted($18)

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
	VZEROUPPER
	RET
