#include "textflag.h"

// constant broadcasts a float64, or other 64 bits, to Z's eight lanes.
#define constant(bits, to) \
	MOVQ bits, AX; \
	VPBROADCASTQ AX, to

// func log1p32AVX512(dst, src *float32, n int, logs *[128]float64) (done int)
//
// Operations and their order are those of log1p32, hence the results; no product is fused with a sum.
TEXT ·log1p32AVX512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ logs+24(FP), BX
	XORQ R8, R8

	MOVL $0x80000000, AX
	VPBROADCASTD AX, Y16              // the sign
	MOVL $1, AX
	VPBROADCASTD AX, Y17
	MOVL $0x317fffff, AX
	VPBROADCASTD AX, Y18              // tiny - 1
	MOVL $0x7f800000, AX
	VPBROADCASTD AX, Y19              // inf
	MOVL $0xbf800000, AX
	VPBROADCASTD AX, Y20              // -1
	constant($0x3ff0000000000000, Z21)  // 1
	constant($0x3fe6000000000000, Z22)  // cellBase
	constant($0xfff0000000000000, Z23)  // all but the mantissa
	constant($127, Z24)
	constant($0x3fe62e42fefa39ef, Z25)  // ln2
	constant($0x3fd5555555555555, Z26)  // 1/3
	constant($0x3fe0000000000000, Z27)  // 1/2
	constant($0x3fc999999999999a, Z28)  // 1/5
	constant($0x3fd0000000000000, Z29)  // 1/4
	constant($0x3fc2492492492492, Z30)  // 1/7
	constant($0x3fc5555555555555, Z31)  // 1/6
	constant($0x3fc0000000000000, Z15)  // 1/8
	constant($0x1fffffff, Z14)          // what float32 leaves of a mantissa
	constant($0x0fffffc0, Z13)          // half - 64
	constant($128, Z12)
	constant($0xffffe00000000000, Z11) // what tells a cell
	constant($0x0000100000000000, Z10) // half of one
	constant($79, Z9)
	constant($2, Z8)

loop:
	LEAQ 8(R8), R9
	CMPQ R9, CX
	JGT  done
	VMOVDQU32 (SI)(R8*4), Y0

	// Lanes for edge32.
	VPANDND Y0, Y16, Y1
	VPSUBD  Y17, Y1, Y2
	VPCMPUD $1, Y18, Y2, K1
	VPCMPUD $5, Y19, Y1, K2
	VCMPPS  $0x1a, Y20, Y0, K3
	KORB    K1, K2, K1
	KORB    K1, K3, K1

	VCVTPS2PD Y0, Z1
	VADDPD    Z1, Z21, Z1             // y
	VPSUBQ    Z22, Z1, Z2             // shifted
	VPSRAQ    $52, Z2, Z3
	VCVTQQ2PD Z3, Z3                  // k
	VPANDQ    Z23, Z2, Z4
	VPSUBQ    Z4, Z1, Z1              // z
	VPSRLQ    $45, Z2, Z2
	VPANDQ    Z24, Z2, Z2
	KXNORB    K0, K0, K6
	VPXORQ    Z6, Z6, Z6
	VGATHERQPD (BX)(Z2*8), K6, Z6     // log
	VMOVAPD   Z10, Z4
	VPTERNLOGQ $0xf8, Z11, Z1, Z4     // c: z's leading bits and half a cell
	VPSUBQ    Z9, Z2, Z2
	VPCMPUQ   $1, Z8, Z2, K4
	VMOVAPD   Z21, K4, Z4             // but 1 in the cells that meet there
	VDIVPD    Z4, Z21, Z5             // inverse

	VSUBPD Z4, Z1, Z1
	VMULPD Z5, Z1, Z1                 // r
	VMULPD Z1, Z1, Z2                 // r2
	VMULPD Z2, Z2, Z7                 // r4
	VMULPD Z25, Z3, Z3
	VADDPD Z6, Z3, Z3                 // k*ln2 + log
	VMULPD Z26, Z1, Z4
	VSUBPD Z27, Z4, Z4                // r/3 - 1/2
	VMULPD Z28, Z1, Z5
	VSUBPD Z29, Z5, Z5
	VMULPD Z5, Z2, Z5
	VADDPD Z5, Z4, Z4                 // + r2*(r/5 - 1/4)
	VMULPD Z30, Z1, Z5
	VSUBPD Z31, Z5, Z5
	VMULPD Z15, Z2, Z6
	VSUBPD Z6, Z5, Z5
	VMULPD Z5, Z7, Z5
	VADDPD Z5, Z4, Z4                 // the series
	VMULPD Z4, Z2, Z4
	VADDPD Z4, Z1, Z4
	VADDPD Z4, Z3, Z4                 // sum

	// Lanes for hard32.
	VPANDQ  Z14, Z4, Z5
	VPSUBQ  Z13, Z5, Z5
	VPCMPUQ $1, Z12, Z5, K2
	KORTESTB K1, K2
	JNZ     done

	VCVTPD2PS Z4, Y4
	VPANDD    Y16, Y0, Y0
	VPORD     Y0, Y4, Y4
	VMOVDQU32 Y4, (DI)(R8*4)
	MOVQ      R9, R8
	JMP       loop

done:
	MOVQ R8, done+32(FP)
	VZEROUPPER
	RET
