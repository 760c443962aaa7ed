#include "textflag.h"

// load has the lower halves of 16 int64 in Y0 and Y2, in order.
#define load \
	VMOVUPS (SI), Y0; \
	VMOVUPS 32(SI), Y1; \
	VMOVUPS 64(SI), Y2; \
	VMOVUPS 96(SI), Y3; \
	VSHUFPS $0x88, Y1, Y0, Y0; \
	VSHUFPS $0x88, Y3, Y2, Y2; \
	VPERMPD $0xd8, Y0, Y0; \
	VPERMPD $0xd8, Y2, Y2

// func narrow4AVX2(dst, src unsafe.Pointer, n int)
TEXT ·narrow4AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	load
	VMOVUPS Y0, (DI)
	VMOVUPS Y2, 32(DI)
	ADDQ    $128, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNE     loop
	VZEROUPPER
	RET

// func narrow2AVX2(dst, src unsafe.Pointer, n int)
TEXT ·narrow2AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	load
	VPACKUSDW Y2, Y0, Y0
	VPERMQ    $0xd8, Y0, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $128, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNE       loop
	VZEROUPPER
	RET

// func halveAVX2(dst, src unsafe.Pointer, n int)
TEXT ·halveAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VMOVDQU   (SI), Y0
	VPACKUSDW 32(SI), Y0, Y0
	VPERMQ    $0xd8, Y0, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $64, SI
	ADDQ      $32, DI
	SUBQ      $16, CX
	JNE       loop
	VZEROUPPER
	RET

// The lower three bytes of each four, in front.
DATA lower<>+0(SB)/8, $0x0908060504020100
DATA lower<>+8(SB)/8, $0x808080800e0d0c0a
DATA lower<>+16(SB)/8, $0x0908060504020100
DATA lower<>+24(SB)/8, $0x808080800e0d0c0a
GLOBL lower<>(SB), RODATA|NOPTR, $32

// Three words of each half, one behind the other.
DATA halves<>+0(SB)/8, $0x0000000100000000
DATA halves<>+8(SB)/8, $0x0000000400000002
DATA halves<>+16(SB)/8, $0x0000000600000005
DATA halves<>+24(SB)/8, $0x0000000700000003
GLOBL halves<>(SB), RODATA|NOPTR, $32

// func packAVX2(dst, src unsafe.Pointer, n int)
TEXT ·packAVX2(SB), NOSPLIT, $0-24
	MOVQ    dst+0(FP), DI
	MOVQ    src+8(FP), SI
	MOVQ    n+16(FP), CX
	VMOVDQU lower<>(SB), Y2
	VMOVDQU halves<>(SB), Y3

loop:
	// If dst is src, what is written behind the 24 bytes is of values that were read. It is written over by the next ones.
	VMOVDQU (SI), Y0
	VPSHUFB Y2, Y0, Y0
	VPERMD  Y0, Y3, Y0
	VMOVDQU Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $24, DI
	SUBQ    $8, CX
	JNE     loop
	VZEROUPPER
	RET

// func bitsAVX2(words unsafe.Pointer, n int) uint64
TEXT ·bitsAVX2(SB), NOSPLIT, $0-24
	MOVQ  words+0(FP), SI
	MOVQ  n+8(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3

loop:
	VPOR (SI), Y0, Y0
	VPOR 32(SI), Y1, Y1
	VPOR 64(SI), Y2, Y2
	VPOR 96(SI), Y3, Y3
	ADDQ $128, SI
	SUBQ $16, CX
	JNE  loop

	VPOR         Y1, Y0, Y0
	VPOR         Y3, Y2, Y2
	VPOR         Y2, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPOR         X1, X0, X0
	VPSRLDQ      $8, X0, X1
	VPOR         X1, X0, X0
	VMOVQ        X0, AX
	MOVQ         AX, ret+16(FP)
	VZEROUPPER
	RET
