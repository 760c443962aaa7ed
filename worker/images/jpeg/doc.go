// Package jpeg decodes JPEG files of 8 bits a sample, baseline and progressive, to the very pixels that libjpeg-turbo
// makes with its defaults (the accurate integer IDCT, smooth upsampling), in integers alone: so they are the same bits
// on every CPU, and the same as Pillow's. It decodes only what a region of the picture needs.
//
// It is called by package images with bytes that anyone may have written: it never allocates by what a header says
// before the caller has seen the header, and damage in what it decodes is an error.
//
// A Decoder holds memory that it uses again for the next picture; it is not safe for concurrent use.
package jpeg
