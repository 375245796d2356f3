//! Reader of the wire format, and helpers to write it forwards.

use super::error::Error;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const DELIMITED: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

const MAX_VARINT_BYTES: usize = 10;

/// A cursor over the remaining bytes of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// A tag: the field number and wire type of the next value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire: u8,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next tag, or `None` at the end of the message.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Tag>, Error> {
        match self.rest {
            [] => Ok(None),
            _ => self.tag().map(Some),
        }
    }

    #[inline]
    fn tag(&mut self) -> Result<Tag, Error> {
        let tag = self.varint()?;
        let (number, wire) = (tag >> 3, (tag & 7) as u8);
        match u32::try_from(number) {
            _ if wire == END_GROUP => Err(Error::Group),
            Ok(narrow) if narrow > 0 && narrow <= i32::MAX as u32 => Ok(Tag { number: narrow, wire }),
            _ => Err(Error::Tag { number, wire }),
        }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Error> {
        match self.rest {
            [byte @ 0..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Error> {
        let mut number = 0;
        for (at, byte) in self.rest.iter().take(MAX_VARINT_BYTES).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        if self.rest.len() < MAX_VARINT_BYTES {
            Err(Error::End)
        } else {
            Err(Error::Overflow)
        }
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Error> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Error::End)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    #[inline]
    pub(super) fn delimited(&mut self) -> Result<&'a [u8], Error> {
        let length = self.varint()?;
        if length > i64::MAX as u64 {
            return Err(Error::Length);
        }
        self.take(usize::try_from(length).map_err(|_| Error::Length)?)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::End)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips a value whose tag has been read.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), Error> {
        match wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.take(8).map(drop),
            DELIMITED => self.delimited().map(drop),
            START_GROUP => self.skip_group(),
            FIXED32 => self.take(4).map(drop),
            other => Err(Error::Wire(other)),
        }
    }

    /// Nested groups are counted, not recursed into, so that their depth is unlimited.
    fn skip_group(&mut self) -> Result<(), Error> {
        let mut open = 1u64;
        while open > 0 {
            let wire = (self.varint()? & 7) as u8;
            match wire {
                START_GROUP => open += 1,
                END_GROUP => open -= 1,
                plain => self.skip(plain)?,
            }
        }
        Ok(())
    }
}

/// How many bytes a varint takes.
pub(super) fn varint_length(number: usize) -> usize {
    let bits = usize::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Appends a varint.
pub(super) fn push_varint(number: usize, out: &mut Vec<u8>) {
    let mut rest = number;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends the tag and length of a delimited field. The field number must be below 16.
pub(super) fn push_field_header(number: u8, length: usize, out: &mut Vec<u8>) {
    out.push(number << 3 | DELIMITED);
    push_varint(length, out);
}

/// How many bytes a delimited field takes, tag and length included. The field number must be below 16.
pub(super) fn field_length(length: usize) -> usize {
    1 + varint_length(length) + length
}
