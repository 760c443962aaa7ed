#include "textflag.h"

// broadcast makes 16 bits, or 32, of Y from a constant; it needs AX.
#define broadcast16(C, X, Y) \
	MOVL         $C, AX; \
	VMOVD        AX, X;  \
	VPBROADCASTW X, Y

#define broadcast32(C, X, Y) \
	MOVL         $C, AX; \
	VMOVD        AX, X;  \
	VPBROADCASTD X, Y

// mixed makes 3/4 of the near samples and 1/4 of the far ones, times 4.
#define mixed(NEAR, FAR, Y) \
	VPMOVZXBW NEAR, Y;    \
	VPMOVZXBW FAR, Y3;    \
	VPMULLW   Y15, Y, Y;  \
	VPADDW    Y3, Y, Y

// func stretchAVX2(dst, near, far *byte, n int, even, odd int16)
TEXT ·stretchAVX2(SB), NOSPLIT, $0-36
	MOVQ dst+0(FP), DI
	MOVQ near+8(FP), SI
	MOVQ far+16(FP), BX
	MOVQ n+24(FP), CX
	VPBROADCASTW even+32(FP), Y13
	VPBROADCASTW odd+34(FP), Y14
	broadcast16(3, X15, Y15)

samples:
	mixed(-1(SI), -1(BX), Y0)
	mixed((SI), (BX), Y1)
	mixed(1(SI), 1(BX), Y2)
	VPMULLW Y15, Y1, Y1
	VPADDW  Y13, Y0, Y0
	VPADDW  Y14, Y2, Y2
	VPADDW  Y1, Y0, Y0
	VPADDW  Y1, Y2, Y2
	VPSRLW  $4, Y0, Y0
	VPSRLW  $4, Y2, Y2
	VPSLLW  $8, Y2, Y2
	VPOR    Y2, Y0, Y0
	VMOVDQU Y0, (DI)
	ADDQ    $16, SI
	ADDQ    $16, BX
	ADDQ    $32, DI
	SUBQ    $16, CX
	JGT     samples
	VZEROUPPER
	RET

// func yccAVX2(dst, luma, blues, reds *byte, n int)
TEXT ·yccAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ luma+8(FP), SI
	MOVQ blues+16(FP), BX
	MOVQ reds+24(FP), DX
	MOVQ n+32(FP), CX
	broadcast16(128, X8, Y8)
	broadcast16(26345, X9, Y9)       // 91881 - 1<<16
	broadcast16(-14942, X10, Y10)    // 116130 - 2<<16
	broadcast32(0x492ea7e6, X11, Y11) // -22554, and -46802 + 1<<16
	broadcast32(0x8000, X12, Y12)
	broadcast16(1, X13, Y13)
	VPXOR Y14, Y14, Y14

pixels:
	VPMOVZXBW (SI), Y0
	VPMOVZXBW (BX), Y1
	VPMOVZXBW (DX), Y2
	VPSUBW    Y8, Y1, Y1
	VPSUBW    Y8, Y2, Y2

	// Of a constant times x, rounded: half of what twice x gives, plus 1.
	VPADDW  Y2, Y2, Y3
	VPMULHW Y9, Y3, Y3
	VPADDW  Y13, Y3, Y3
	VPSRAW  $1, Y3, Y3
	VPADDW  Y2, Y3, Y3
	VPADDW  Y0, Y3, Y3   // red
	VPADDW  Y1, Y1, Y4
	VPMULHW Y10, Y4, Y5
	VPADDW  Y13, Y5, Y5
	VPSRAW  $1, Y5, Y5
	VPADDW  Y4, Y5, Y5
	VPADDW  Y0, Y5, Y5   // blue

	VPUNPCKLWD Y2, Y1, Y6
	VPUNPCKHWD Y2, Y1, Y7
	VPMADDWD   Y11, Y6, Y6
	VPMADDWD   Y11, Y7, Y7
	VPADDD     Y12, Y6, Y6
	VPADDD     Y12, Y7, Y7
	VPSRAD     $16, Y6, Y6
	VPSRAD     $16, Y7, Y7
	VPACKSSDW  Y7, Y6, Y6
	VPSUBW     Y2, Y6, Y6
	VPADDW     Y0, Y6, Y6 // green

	VPACKUSWB  Y5, Y3, Y3
	VPACKUSWB  Y14, Y6, Y6
	VPUNPCKLBW Y6, Y3, Y4       // red and green
	VPUNPCKHBW Y6, Y3, Y5       // blue and nothing
	VPUNPCKLWD Y5, Y4, Y0       // pixels 0 to 3 and 8 to 11
	VPUNPCKHWD Y5, Y4, Y1
	VPERM2I128 $0x20, Y1, Y0, Y2
	VPERM2I128 $0x31, Y1, Y0, Y3
	VMOVDQU    Y2, (DI)
	VMOVDQU    Y3, 32(DI)
	ADDQ       $16, SI
	ADDQ       $16, BX
	ADDQ       $16, DX
	ADDQ       $64, DI
	SUBQ       $16, CX
	JGT        pixels
	VZEROUPPER
	RET
