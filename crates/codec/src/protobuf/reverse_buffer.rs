//! Writer of the wire format, from the last byte to the first.
//!
//! A message is preceded by its length, which is known only after it is written. Writing backwards means that every
//! length is known when it is needed, without measuring first or moving bytes.

use super::reader::{DELIMITED, FIXED64, VARINT};

const FIRST_CAPACITY_BYTES: usize = 4096;

/// A buffer that grows towards its front.
#[derive(Debug)]
pub(super) struct ReverseBuffer {
    bytes: Vec<u8>,
    /// Index of the first written byte; everything before it is free.
    start: usize,
}

impl ReverseBuffer {
    pub(super) fn new() -> Self {
        ReverseBuffer {
            bytes: vec![0; FIRST_CAPACITY_BYTES],
            start: FIRST_CAPACITY_BYTES,
        }
    }

    /// How many bytes are written so far: the mark that [`ReverseBuffer::close`] measures from.
    pub(super) fn mark(&self) -> usize {
        self.bytes.len() - self.start
    }

    #[inline]
    pub(super) fn put(&mut self, part: &[u8]) {
        if self.start < part.len() {
            self.grow(part.len());
        }
        let start = self.start - part.len();
        self.bytes[start..self.start].copy_from_slice(part);
        self.start = start;
    }

    #[cold]
    fn grow(&mut self, additional: usize) {
        let written = self.mark();
        let length = (self.bytes.len() * 2).max(written + additional);
        let mut bytes = vec![0; length];
        bytes[length - written..].copy_from_slice(&self.bytes[self.start..]);
        self.start = length - written;
        self.bytes = bytes;
    }

    #[inline]
    fn varint(&mut self, number: u64) {
        if number < 0x80 {
            return self.put(&[number as u8]);
        }
        let mut digits = [0; 10];
        let mut count = 0;
        let mut rest = number;
        while rest >= 0x80 {
            digits[count] = rest as u8 | 0x80;
            rest >>= 7;
            count += 1;
        }
        digits[count] = rest as u8;
        self.put(&digits[..=count]);
    }

    #[inline]
    fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    pub(super) fn number(&mut self, number: u32, value: i64) {
        self.varint(value as u64);
        self.tag(number, VARINT);
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.put(&value.to_le_bytes());
        self.tag(number, FIXED64);
    }

    #[inline]
    pub(super) fn delimited(&mut self, number: u32, bytes: &[u8]) {
        self.put(bytes);
        self.varint(bytes.len() as u64);
        self.tag(number, DELIMITED);
    }

    /// Makes the bytes written since the mark the value of a field.
    #[inline]
    pub(super) fn close(&mut self, number: u32, mark: usize) {
        let length = self.mark() - mark;
        self.varint(length as u64);
        self.tag(number, DELIMITED);
    }

    /// The written bytes, in a buffer of exactly their size.
    pub(super) fn into_vec(self) -> Vec<u8> {
        self.bytes[self.start..].to_vec()
    }
}
