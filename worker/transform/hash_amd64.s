#include "textflag.h"

// combineK is the multiplier of CityHash's Hash128to64.
#define combineK $0x9ddfea08eb382d69

// broadcast loads the constants of hashParams: Z16 salt, Z17 divisor, Z18 multiplier, Z19 its upper half, X20 shift,
// Z21 kept, Z22 combineK, Z23 ones, Z24 2^32-1.
#define broadcast(params) \
	VPBROADCASTQ 0(params), Z16; \
	VPBROADCASTQ 8(params), Z17; \
	VPBROADCASTQ 16(params), Z18; \
	VPSRLQ $32, Z18, Z19; \
	VMOVQ 24(params), X20; \
	VPBROADCASTQ 32(params), Z21; \
	MOVQ combineK, AX; \
	VPBROADCASTQ AX, Z22; \
	VPTERNLOGQ $0xff, Z23, Z23, Z23; \
	VPSRLQ $32, Z23, Z24

// mixID turns eight ids in Z0 into mixID of them. It uses Z1 and Z2.
#define mixID \
	VPSLLQ $21, Z0, Z1; \
	VPSUBQ Z0, Z1, Z0; \
	VPADDQ Z23, Z0, Z0; \
	VPSRLQ $24, Z0, Z1; \
	VPXORQ Z1, Z0, Z0; \
	VPSLLQ $3, Z0, Z1; \
	VPSLLQ $8, Z0, Z2; \
	VPADDQ Z1, Z0, Z0; \
	VPADDQ Z2, Z0, Z0; \
	VPSRLQ $14, Z0, Z1; \
	VPXORQ Z1, Z0, Z0; \
	VPSLLQ $2, Z0, Z1; \
	VPSLLQ $4, Z0, Z2; \
	VPADDQ Z1, Z0, Z0; \
	VPADDQ Z2, Z0, Z0; \
	VPSRLQ $28, Z0, Z1; \
	VPXORQ Z1, Z0, Z0; \
	VPSLLQ $31, Z0, Z1; \
	VPADDQ Z1, Z0, Z0

// combine turns Z0 into combine(salt, Z0). It uses Z1.
#define combine \
	VPXORQ Z16, Z0, Z0; \
	VPMULLQ Z22, Z0, Z0; \
	VPSRLQ $47, Z0, Z1; \
	VPTERNLOGQ $0x96, Z16, Z1, Z0; \
	VPMULLQ Z22, Z0, Z0; \
	VPSRLQ $47, Z0, Z1; \
	VPXORQ Z1, Z0, Z0; \
	VPMULLQ Z22, Z0, Z0

// modulo turns hashes in Z0 into modulus.of them. It uses Z1 to Z6.
#define modulo \
	VPSRAQ $63, Z0, Z1; \
	VPXORQ Z1, Z0, Z0; \
	VPANDQ Z21, Z0, Z0; \
	VPSRLQ $32, Z0, Z2; \
	VPMULUDQ Z18, Z0, Z3; \
	VPMULUDQ Z19, Z0, Z4; \
	VPMULUDQ Z18, Z2, Z5; \
	VPMULUDQ Z19, Z2, Z6; \
	VPSRLQ $32, Z3, Z3; \
	VPADDQ Z3, Z4, Z4; \
	VPANDQ Z24, Z4, Z3; \
	VPADDQ Z3, Z5, Z5; \
	VPSRLQ $32, Z4, Z4; \
	VPSRLQ $32, Z5, Z5; \
	VPADDQ Z4, Z6, Z6; \
	VPADDQ Z5, Z6, Z6; \
	VPSRLQ X20, Z6, Z6; \
	VPMULLQ Z17, Z6, Z6; \
	VPSUBQ Z6, Z0, Z0; \
	VPXORQ Z1, Z0, Z0; \
	VPANDQ Z17, Z1, Z1; \
	VPADDQ Z1, Z0, Z0

// func hashInt64AVX512(dst, src *int64, n int, p *hashParams)
TEXT ·hashInt64AVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ p+24(FP), DX
	broadcast(DX)
	SHRQ $3, CX
	JZ   done64

loop64:
	VMOVDQU64 (SI), Z0
	mixID
	combine
	modulo
	VMOVDQU64 Z0, (DI)
	ADDQ $64, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  loop64

done64:
	VZEROUPPER
	RET

// func hashInt32AVX512(dst *int64, src *int32, n int, p *hashParams)
TEXT ·hashInt32AVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ p+24(FP), DX
	broadcast(DX)
	SHRQ $3, CX
	JZ   done32

loop32:
	VPMOVSXDQ (SI), Z0
	mixID
	combine
	modulo
	VMOVDQU64 Z0, (DI)
	ADDQ $32, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  loop32

done32:
	VZEROUPPER
	RET

// What follows does the same with four ids in Y0, where a product of 64 bits is made of those of 32.

// broadcastAVX2 loads the constants of hashParams: Y15 salt, Y14 divisor, Y13 multiplier, Y12 its upper half, X11
// shift, Y10 kept, Y9 combineK, Y8 its upper half.
#define broadcastAVX2(params) \
	VPBROADCASTQ 0(params), Y15; \
	VPBROADCASTQ 8(params), Y14; \
	VPBROADCASTQ 16(params), Y13; \
	VPSRLQ $32, Y13, Y12; \
	VMOVQ 24(params), X11; \
	VPBROADCASTQ 32(params), Y10; \
	MOVQ combineK, AX; \
	VMOVQ AX, X9; \
	VPBROADCASTQ X9, Y9; \
	VPSRLQ $32, Y9, Y8

// multiply turns Y0 into the lower halves of its products with m, whose upper half is top. It uses Y1 and Y2.
#define multiply(m, top) \
	VPSRLQ $32, Y0, Y1; \
	VPMULUDQ top, Y0, Y2; \
	VPMULUDQ m, Y1, Y1; \
	VPMULUDQ m, Y0, Y0; \
	VPADDQ Y1, Y2, Y2; \
	VPSLLQ $32, Y2, Y2; \
	VPADDQ Y2, Y0, Y0

// mixAVX2 turns Y0 into mixID of it. It uses Y1 and Y2.
#define mixAVX2 \
	VPCMPEQQ Y2, Y2, Y2; \
	VPSLLQ $21, Y0, Y1; \
	VPSUBQ Y0, Y1, Y0; \
	VPADDQ Y2, Y0, Y0; \
	VPSRLQ $24, Y0, Y1; \
	VPXOR Y1, Y0, Y0; \
	VPSLLQ $3, Y0, Y1; \
	VPSLLQ $8, Y0, Y2; \
	VPADDQ Y1, Y0, Y0; \
	VPADDQ Y2, Y0, Y0; \
	VPSRLQ $14, Y0, Y1; \
	VPXOR Y1, Y0, Y0; \
	VPSLLQ $2, Y0, Y1; \
	VPSLLQ $4, Y0, Y2; \
	VPADDQ Y1, Y0, Y0; \
	VPADDQ Y2, Y0, Y0; \
	VPSRLQ $28, Y0, Y1; \
	VPXOR Y1, Y0, Y0; \
	VPSLLQ $31, Y0, Y1; \
	VPADDQ Y1, Y0, Y0

// combineAVX2 turns Y0 into combine(salt, Y0). It uses Y1 and Y2.
#define combineAVX2 \
	VPXOR Y15, Y0, Y0; \
	multiply(Y9, Y8); \
	VPSRLQ $47, Y0, Y1; \
	VPXOR Y15, Y0, Y0; \
	VPXOR Y1, Y0, Y0; \
	multiply(Y9, Y8); \
	VPSRLQ $47, Y0, Y1; \
	VPXOR Y1, Y0, Y0; \
	multiply(Y9, Y8)

// moduloAVX2 turns hashes in Y0 into modulus.of them. It uses Y1 to Y7.
#define moduloAVX2 \
	VPXOR Y7, Y7, Y7; \
	VPCMPGTQ Y0, Y7, Y7; \
	VPXOR Y7, Y0, Y0; \
	VPAND Y10, Y0, Y0; \
	VPSRLQ $32, Y0, Y2; \
	VPMULUDQ Y13, Y0, Y3; \
	VPMULUDQ Y12, Y0, Y4; \
	VPMULUDQ Y13, Y2, Y5; \
	VPMULUDQ Y12, Y2, Y6; \
	VPXOR Y1, Y1, Y1; \
	VPSRLQ $32, Y3, Y3; \
	VPADDQ Y3, Y4, Y4; \
	VPBLENDD $0xaa, Y1, Y4, Y3; \
	VPADDQ Y3, Y5, Y5; \
	VPSRLQ $32, Y4, Y4; \
	VPSRLQ $32, Y5, Y5; \
	VPADDQ Y4, Y6, Y6; \
	VPADDQ Y5, Y6, Y6; \
	VMOVDQA Y0, Y3; \
	VPSRLQ X11, Y6, Y0; \
	VPSRLQ $32, Y14, Y4; \
	multiply(Y14, Y4); \
	VPSUBQ Y0, Y3, Y0; \
	VPXOR Y7, Y0, Y0; \
	VPAND Y14, Y7, Y7; \
	VPADDQ Y7, Y0, Y0

// func hashInt64AVX2(dst, src *int64, n int, p *hashParams)
TEXT ·hashInt64AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ p+24(FP), DX
	broadcastAVX2(DX)
	SHRQ $2, CX
	JZ   done64

loop64:
	VMOVDQU (SI), Y0
	mixAVX2
	combineAVX2
	moduloAVX2
	VMOVDQU Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ CX
	JNZ  loop64

done64:
	VZEROUPPER
	RET

// func hashInt32AVX2(dst *int64, src *int32, n int, p *hashParams)
TEXT ·hashInt32AVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ p+24(FP), DX
	broadcastAVX2(DX)
	SHRQ $2, CX
	JZ   done32

loop32:
	VPMOVSXDQ (SI), Y0
	mixAVX2
	combineAVX2
	moduloAVX2
	VMOVDQU Y0, (DI)
	ADDQ $16, SI
	ADDQ $32, DI
	DECQ CX
	JNZ  loop32

done32:
	VZEROUPPER
	RET
