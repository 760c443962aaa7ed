#include "textflag.h"

// func joinSSE4(dst, planes *byte, stride, groups int)
TEXT ·joinSSE4(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ planes+8(FP), SI
	MOVQ stride+16(FP), BX
	MOVQ groups+24(FP), CX
	LEAQ (SI)(BX*2), R8 // planes 2 and 3

loop4:
	MOVOU     (SI), X0
	MOVOU     (SI)(BX*1), X1
	MOVOU     (R8), X2
	MOVOU     (R8)(BX*1), X3
	MOVOA     X0, X4
	MOVOA     X2, X5
	PUNPCKLBW X1, X0       // bytes 0 and 1 of values 0 to 7
	PUNPCKHBW X1, X4       // of values 8 to 15
	PUNPCKLBW X3, X2
	PUNPCKHBW X3, X5
	MOVOA     X0, X6
	MOVOA     X4, X7
	PUNPCKLWL X2, X0       // values 0 to 3
	PUNPCKHWL X2, X6
	PUNPCKLWL X5, X4
	PUNPCKHWL X5, X7
	MOVOU     X0, (DI)
	MOVOU     X6, 16(DI)
	MOVOU     X4, 32(DI)
	MOVOU     X7, 48(DI)
	ADDQ      $16, SI
	ADDQ      $16, R8
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop4
	RET

// func joinSSE8(dst, planes *byte, stride, groups int)
TEXT ·joinSSE8(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ planes+8(FP), SI
	MOVQ stride+16(FP), BX
	MOVQ groups+24(FP), CX
	LEAQ (SI)(BX*2), R8  // planes 2 and 3
	LEAQ (SI)(BX*4), R9  // 4 and 5
	LEAQ (R8)(BX*4), R10 // 6 and 7

loop8:
	MOVQ      (SI), X0
	MOVQ      (SI)(BX*1), X1
	MOVQ      (R8), X2
	MOVQ      (R8)(BX*1), X3
	MOVQ      (R9), X4
	MOVQ      (R9)(BX*1), X5
	MOVQ      (R10), X6
	MOVQ      (R10)(BX*1), X7
	PUNPCKLBW X1, X0          // bytes 0 and 1 of values 0 to 7
	PUNPCKLBW X3, X2
	PUNPCKLBW X5, X4
	PUNPCKLBW X7, X6
	MOVOA     X0, X8
	MOVOA     X4, X9
	PUNPCKLWL X2, X0          // bytes 0 to 3 of values 0 to 3
	PUNPCKHWL X2, X8          // of values 4 to 7
	PUNPCKLWL X6, X4          // bytes 4 to 7 of values 0 to 3
	PUNPCKHWL X6, X9
	MOVOA     X0, X10
	MOVOA     X8, X11
	PUNPCKLLQ X4, X0          // values 0 and 1
	PUNPCKHLQ X4, X10
	PUNPCKLLQ X9, X8
	PUNPCKHLQ X9, X11
	MOVOU     X0, (DI)
	MOVOU     X10, 16(DI)
	MOVOU     X8, 32(DI)
	MOVOU     X11, 48(DI)
	ADDQ      $8, SI
	ADDQ      $8, R8
	ADDQ      $8, R9
	ADDQ      $8, R10
	ADDQ      $64, DI
	DECQ      CX
	JNZ       loop8
	RET
