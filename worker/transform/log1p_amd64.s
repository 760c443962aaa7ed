#include "textflag.h"

// constant broadcasts a float32, or other 32 bits, to Z's sixteen lanes.
#define constant(bits, to) \
	MOVL $bits, AX; \
	VPBROADCASTD AX, to

// func log1p32AVX512(dst, src *float32, n int, cells *floatCells) (at int, hard uint32)
TEXT ·log1p32AVX512(SB), NOSPLIT, $0-44
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ cells+24(FP), BX
	XORQ R8, R8

	constant(0x3f800000, Z31)  // 1
	constant(0xbf800000, Z30)  // -1
	constant(0x7e800000, Z29)  // 2^126: y*2^-k is not exact above
	constant(0x3f320000, Z28)  // floatBase
	constant(0xff800000, Z27)  // all but the mantissa
	constant(0x33b17200, Z26)  // ln2Head * 2^-23
	constant(0x2a3fbe8e, Z25)  // (ln2 - ln2Head) * 2^-23
	constant(0x3e4cdb68, Z24)  // 1/5, and so on: moved a little to make up for the terms that are left out
	constant(0xbe800885, Z23)  // -1/4
	constant(0x3eaaaaab, Z22)  // 1/3
	constant(0xbf000000, Z21)  // -1/2
	constant(0x34200000, Z20)  // 5 * 2^-25
	constant(0x2d800000, Z19)  // 2^-36
	constant(0x7fffffff, Z18)  // all but the sign
	constant(0x80000000, Z17)  // the sign
	VMOVUPS 0(BX), Z16         // inverses
	VMOVUPS 64(BX), Z15
	VMOVUPS 128(BX), Z14       // heads
	VMOVUPS 192(BX), Z13
	VMOVUPS 256(BX), Z12       // tails
	VMOVUPS 320(BX), Z11
	KXNORW K0, K0, K1

loop:
	SUBQ $16, CX
	JGE  load
	ADDQ $16, CX
	JLE  done
	MOVL $1, AX
	SHLL CX, AX
	DECL AX
	KMOVW AX, K1                      // the last lanes, fewer than 16
	XORL CX, CX

load:
	VMOVUPS.Z (SI)(R8*4), K1, Z0      // x
	VCMPPS $0x1e, Z30, Z0, K2         // x > -1
	VCMPPS $0x11, Z29, Z0, K2, K2     // x < 2^126

	VMAXPS Z31, Z0, Z1
	VMINPS Z31, Z0, Z2
	VADDPS Z2, Z1, Z3                 // y
	VSUBPS Z1, Z3, Z1
	VSUBPS Z1, Z2, Z2                 // lost: 1 + x = y + lost
	VPSUBD Z28, Z3, Z1
	VPSRLD $18, Z1, Z4                // cell
	VMOVDQA64 Z4, Z5
	VMOVDQA64 Z4, Z6
	VPERMI2PS Z15, Z16, Z4
	VPERMI2PS Z13, Z14, Z5
	VPERMI2PS Z11, Z12, Z6
	VPANDD Z27, Z1, Z1                // k << 23
	VPSUBD Z1, Z4, Z4                 // inverse * 2^-k
	VCVTDQ2PS Z1, Z1
	VFMADD231PS Z26, Z1, Z5           // head = k*ln2Head + cell's, exact
	VFMADD231PS Z25, Z1, Z6           // tail

	VFMSUB213PS Z31, Z4, Z3           // r = y*inverse - 1, exact
	VMOVAPS Z3, Z7
	VFMADD231PS Z2, Z4, Z7            // s = r + lost*inverse
	VADDPS Z7, Z5, Z8                 // high = head + s
	VSUBPS Z5, Z8, Z5
	VSUBPS Z5, Z3, Z3                 // r - (high - head)
	VADDPS Z3, Z6, Z6
	VFMADD231PS Z2, Z4, Z6            // tail, with what s and high left out

	VMULPS Z7, Z7, Z3                 // s2
	VMOVAPS Z7, Z1
	VFMADD132PS Z24, Z23, Z1
	VFMADD213PS Z22, Z7, Z1
	VFMADD213PS Z21, Z7, Z1
	VFMADD213PS Z6, Z3, Z1            // low = s2 * (-1/2 + s/3 - s2/4 ...) + tail

	VMULPS Z20, Z3, Z3
	VPANDD Z18, Z8, Z2
	VFMADD213PS Z3, Z19, Z2           // doubt
	VADDPS Z2, Z1, Z3
	VSUBPS Z2, Z1, Z2
	VADDPS Z3, Z8, Z3                 // high + (low + doubt)
	VADDPS Z2, Z8, Z2
	VCMPPS $0, Z2, Z3, K2, K2         // equal
	VPTERNLOGD $0xf8, Z17, Z0, Z3     // with x's sign, which log1p(-0) = -0 needs
	KANDW K1, K2, K3
	VMOVUPS Z3, K3, (DI)(R8*4)
	KORTESTW K2, K2                   // lanes that were not loaded count as 0
	JCC  hard
	ADDQ $16, R8
	JMP  loop

hard:
	KNOTW K2, K2
	KMOVW K2, AX
	MOVQ R8, at+32(FP)
	MOVL AX, hard+40(FP)
	VZEROUPPER
	RET

done:
	MOVQ R8, at+32(FP)
	MOVL $0, hard+40(FP)
	VZEROUPPER
	RET

// The constants of log1p32AVX512, in their order there.
DATA logConstants<>+0(SB)/4, $0x3f800000
DATA logConstants<>+4(SB)/4, $0xbf800000
DATA logConstants<>+8(SB)/4, $0x7e800000
DATA logConstants<>+12(SB)/4, $0x3f320000
DATA logConstants<>+16(SB)/4, $0xff800000
DATA logConstants<>+20(SB)/4, $0x33b17200
DATA logConstants<>+24(SB)/4, $0x2a3fbe8e
DATA logConstants<>+28(SB)/4, $0x3e4cdb68
DATA logConstants<>+32(SB)/4, $0xbe800885
DATA logConstants<>+36(SB)/4, $0x3eaaaaab
DATA logConstants<>+40(SB)/4, $0xbf000000
DATA logConstants<>+44(SB)/4, $0x34200000
DATA logConstants<>+48(SB)/4, $0x2d800000
DATA logConstants<>+52(SB)/4, $0x7fffffff
DATA logConstants<>+56(SB)/4, $0x80000000
GLOBL logConstants<>(SB), RODATA|NOPTR, $60

// lookUp picks what a table of 32 has for cells: Y4 has their lowest 3 bits, and the signs of Y5 and Y6 are the others. It uses Y7 to Y9.
#define lookUp(at, to) \
	VPERMPS   at(BX), Y4, Y7; \
	VPERMPS   at+32(BX), Y4, Y8; \
	VBLENDVPS Y5, Y8, Y7, Y7; \
	VPERMPS   at+64(BX), Y4, Y8; \
	VPERMPS   at+96(BX), Y4, Y9; \
	VBLENDVPS Y5, Y9, Y8, Y8; \
	VBLENDVPS Y6, Y8, Y7, to

// func log1p32AVX2(dst, src *float32, n int, cells *floatCells) (at int, hard uint32)
//
// The steps are those of log1p32AVX512, and its comments hold.
TEXT ·log1p32AVX2(SB), NOSPLIT, $0-44
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ cells+24(FP), BX
	XORQ R8, R8
	VBROADCASTSS logConstants<>+0(SB), Y15 // 1
	VBROADCASTSS logConstants<>+12(SB), Y14 // floatBase
	VBROADCASTSS logConstants<>+16(SB), Y13 // all but the mantissa

loop:
	VMOVUPS (SI)(R8*4), Y0
	VMAXPS  Y15, Y0, Y1
	VMINPS  Y15, Y0, Y2
	VADDPS  Y2, Y1, Y3
	VSUBPS  Y1, Y3, Y1
	VSUBPS  Y1, Y2, Y2
	VPSUBD  Y14, Y3, Y1
	VPSRLD  $18, Y1, Y4
	VPSLLD  $10, Y1, Y5
	VPSLLD  $9, Y1, Y6
	lookUp(0, Y10)
	lookUp(128, Y11)
	lookUp(256, Y12)
	VPAND   Y13, Y1, Y1
	VPSUBD  Y1, Y10, Y10              // inverse * 2^-k
	VCVTDQ2PS Y1, Y1
	VBROADCASTSS logConstants<>+20(SB), Y4
	VBROADCASTSS logConstants<>+24(SB), Y5
	VFMADD231PS Y4, Y1, Y11           // head
	VFMADD231PS Y5, Y1, Y12           // tail

	VFMSUB213PS Y15, Y10, Y3          // r
	VMOVAPS Y3, Y7
	VFMADD231PS Y2, Y10, Y7           // s
	VADDPS Y7, Y11, Y8                // high
	VSUBPS Y11, Y8, Y11
	VSUBPS Y11, Y3, Y3
	VADDPS Y3, Y12, Y12
	VFMADD231PS Y2, Y10, Y12          // tail, with what s and high left out

	VMULPS Y7, Y7, Y3                 // s2
	VBROADCASTSS logConstants<>+28(SB), Y4
	VBROADCASTSS logConstants<>+32(SB), Y5
	VBROADCASTSS logConstants<>+36(SB), Y6
	VBROADCASTSS logConstants<>+40(SB), Y9
	VMOVAPS Y7, Y1
	VFMADD132PS Y4, Y5, Y1
	VFMADD213PS Y6, Y7, Y1
	VFMADD213PS Y9, Y7, Y1
	VFMADD213PS Y12, Y3, Y1           // low

	VBROADCASTSS logConstants<>+44(SB), Y4
	VBROADCASTSS logConstants<>+48(SB), Y5
	VBROADCASTSS logConstants<>+52(SB), Y6
	VBROADCASTSS logConstants<>+56(SB), Y9
	VMULPS Y4, Y3, Y3
	VANDPS Y6, Y8, Y2
	VFMADD213PS Y3, Y5, Y2            // doubt
	VADDPS Y2, Y1, Y3
	VSUBPS Y2, Y1, Y2
	VADDPS Y3, Y8, Y3
	VADDPS Y2, Y8, Y2
	VCMPPS $0, Y2, Y3, Y4
	VBROADCASTSS logConstants<>+4(SB), Y5
	VBROADCASTSS logConstants<>+8(SB), Y6
	VCMPPS $0x1e, Y5, Y0, Y5          // x > -1
	VCMPPS $0x11, Y6, Y0, Y6          // x < 2^126
	VANDPS Y5, Y4, Y4
	VANDPS Y6, Y4, Y4
	VANDPS Y9, Y0, Y9
	VORPS  Y9, Y3, Y3                 // with x's sign
	VBLENDVPS Y4, Y3, Y0, Y3          // x, where it is hard: dst may be src
	VMOVUPS Y3, (DI)(R8*4)
	VMOVMSKPS Y4, AX
	XORL $0xff, AX
	JNZ  hard
	ADDQ $8, R8
	CMPQ R8, CX
	JLT  loop

hard:
	MOVQ R8, at+32(FP)
	MOVL AX, hard+40(FP)
	VZEROUPPER
	RET
