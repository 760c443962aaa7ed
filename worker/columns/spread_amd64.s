#include "textflag.h"

// func spreadAVX2x4(v, to unsafe.Pointer, valid *byte, groups, src int, table *[256][8]uint8) (left int)
TEXT ·spreadAVX2x4(SB), NOSPLIT, $0-56
	MOVQ v+0(FP), SI
	MOVQ to+8(FP), DI
	MOVQ valid+16(FP), R8
	MOVQ groups+24(FP), CX
	MOVQ src+32(FP), BX
	MOVQ table+40(FP), DX

loop4:
	MOVBLZX   -1(R8)(CX*1), AX
	VPMOVZXBD (DX)(AX*8), Y0
	POPCNTL   AX, AX
	SUBQ      AX, BX
	VPERMD    (SI)(BX*4), Y0, Y1 // ends at the group's last position at most
	SUBQ      $32, DI
	VMOVDQU   Y1, (DI)
	DECQ      CX
	JNZ       loop4
	MOVQ      BX, left+48(FP)
	VZEROUPPER
	RET

// func spreadAVX2x8(v, to unsafe.Pointer, valid *byte, groups, src int, table *[16][8]uint8) (left int)
TEXT ·spreadAVX2x8(SB), NOSPLIT, $0-56
	MOVQ v+0(FP), SI
	MOVQ to+8(FP), DI
	MOVQ valid+16(FP), R8
	MOVQ groups+24(FP), CX
	MOVQ src+32(FP), BX
	MOVQ table+40(FP), DX

loop8:
	MOVBLZX   -1(R8)(CX*1), AX
	MOVL      AX, R9
	SHRL      $4, R9                // the group's second half
	ANDL      $15, AX
	VPMOVZXBD (DX)(R9*8), Y0
	VPMOVZXBD (DX)(AX*8), Y2
	POPCNTL   R9, R9
	POPCNTL   AX, AX
	SUBQ      R9, BX
	VPERMD    (SI)(BX*8), Y0, Y1
	SUBQ      AX, BX
	VPERMD    (SI)(BX*8), Y2, Y3    // before the second half is written, which may be where the first half's values are
	SUBQ      $64, DI
	VMOVDQU   Y1, 32(DI)
	VMOVDQU   Y3, (DI)
	DECQ      CX
	JNZ       loop8
	MOVQ      BX, left+48(FP)
	VZEROUPPER
	RET
