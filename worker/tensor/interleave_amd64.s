#include "textflag.h"

// quarters loads four rows of columns i, i+4, i+8 and i+12 to the quarters of Z.
#define quarters(i, Z) \
	MOVQ (8*i)(BX), AX; \
	VBROADCASTF32X4 (AX)(R8*4), Z; \
	MOVQ (8*i+32)(BX), AX; \
	VBROADCASTF32X4 (AX)(R8*4), K1, Z; \
	MOVQ (8*i+64)(BX), AX; \
	VBROADCASTF32X4 (AX)(R8*4), K2, Z; \
	MOVQ (8*i+96)(BX), AX; \
	VBROADCASTF32X4 (AX)(R8*4), K3, Z

// store writes a row's columns, and asks for the line behind them, for writing (PREFETCHW 64(DI), which Go's assembler does not know):
// the row's next columns will lie there.
#define store(Z) \
	VMOVUPS Z, K4, (DI); \
	BYTE $0x0f; BYTE $0x0d; BYTE $0x4f; BYTE $0x40; \
	ADDQ DX, DI

// func interleaveAVX512(dst *float32, stride int, columns *[16]*float32, mask uint32, n int)
TEXT ·interleaveAVX512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), DX
	MOVQ columns+16(FP), BX
	MOVL mask+24(FP), AX
	MOVQ n+32(FP), CX
	KMOVW AX, K4
	MOVL $0x00f0, AX
	KMOVW AX, K1
	MOVL $0x0f00, AX
	KMOVW AX, K2
	MOVL $0xf000, AX
	KMOVW AX, K3
	SHLQ $2, DX
	XORQ R8, R8

loop:
	CMPQ R8, CX
	JGE  done
	quarters(0, Z0)
	quarters(1, Z1)
	quarters(2, Z2)
	quarters(3, Z3)

	// In each quarter, four columns of four rows become four rows of four columns.
	VUNPCKLPS Z1, Z0, Z4
	VUNPCKHPS Z1, Z0, Z5
	VUNPCKLPS Z3, Z2, Z6
	VUNPCKHPS Z3, Z2, Z7
	VUNPCKLPD Z6, Z4, Z0
	VUNPCKHPD Z6, Z4, Z1
	VUNPCKLPD Z7, Z5, Z2
	VUNPCKHPD Z7, Z5, Z3

	store(Z0)
	store(Z1)
	store(Z2)
	store(Z3)
	ADDQ    $4, R8
	JMP     loop

done:
	VZEROUPPER
	RET

// halves loads four rows of columns i and i+4 to the halves of Y.
#define halves(i, X, Y) \
	MOVQ (8*i)(BX), AX; \
	VMOVUPS (AX)(R8*4), X; \
	MOVQ (8*i+32)(BX), AX; \
	VINSERTF128 $1, (AX)(R8*4), Y, Y

// store8 writes a row's columns, and asks for the line behind them, as store does.
#define store8(Y) \
	VMOVUPS Y, (DI); \
	BYTE $0x0f; BYTE $0x0d; BYTE $0x4f; BYTE $0x40; \
	ADDQ DX, DI

// func interleaveAVX2(dst *float32, stride int, columns *[8]*float32, n int)
TEXT ·interleaveAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), DX
	MOVQ columns+16(FP), BX
	MOVQ n+24(FP), CX
	SHLQ $2, DX
	XORQ R8, R8

loop:
	halves(0, X0, Y0)
	halves(1, X1, Y1)
	halves(2, X2, Y2)
	halves(3, X3, Y3)
	VUNPCKLPS Y1, Y0, Y4
	VUNPCKHPS Y1, Y0, Y5
	VUNPCKLPS Y3, Y2, Y6
	VUNPCKHPS Y3, Y2, Y7
	VUNPCKLPD Y6, Y4, Y0
	VUNPCKHPD Y6, Y4, Y1
	VUNPCKLPD Y7, Y5, Y2
	VUNPCKHPD Y7, Y5, Y3
	store8(Y0)
	store8(Y1)
	store8(Y2)
	store8(Y3)
	ADDQ $4, R8
	CMPQ R8, CX
	JLT  loop
	VZEROUPPER
	RET
