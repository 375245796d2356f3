//! [`Writer`]: serde's `Serializer` that appends to a vector of bytes.

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::RAW_VALUE;
use super::tokens::plain_prefix;

/// The space reserved for a value, as in `serde_json`.
const INITIAL_BYTES: usize = 128;

/// A writer of one value.
#[derive(Debug)]
pub(super) struct Writer {
    out: Vec<u8>,
    /// Whether the next string is JSON already: that of a `RawValue`.
    is_raw: bool,
}

/// An object or array that is not complete.
#[derive(Debug)]
pub(super) struct Compound<'w> {
    writer: &'w mut Writer,
    is_first: bool,
    /// Its closing brackets.
    end: &'static str,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            out: Vec::with_capacity(INITIAL_BYTES),
            is_raw: false,
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn compound(&mut self, start: &str, end: &'static str) -> Compound<'_> {
        self.push(start);
        Compound {
            writer: self,
            is_first: true,
            end,
        }
    }

    /// Starts the object of an enum's variant.
    fn variant(&mut self, variant: &str) -> Result<(), Error> {
        self.push("{");
        self.string(variant)?;
        self.out.push(b':');
        Ok(())
    }

    /// A string. Only one with characters to escape is left to `serde_json`.
    fn string(&mut self, text: &str) -> Result<(), Error> {
        if plain_prefix(text.as_bytes()) < text.len() {
            return self.scalar(text);
        }
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        self.push(text);
        self.out.push(b'"');
        Ok(())
    }

    /// A value that is neither object nor array, as `serde_json` writes it.
    fn scalar<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        serde_json::to_writer(&mut self.out, value)
    }
}

impl Compound<'_> {
    /// Separates the next element from the last one.
    fn next(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.writer.out.push(b',');
        }
    }

    /// Starts the next field, by its name. The only field of a `RawValue` has none.
    fn field(&mut self, name: &str) -> Result<(), Error> {
        if self.writer.is_raw {
            return Ok(());
        }
        self.next();
        self.writer.string(name)?;
        self.writer.out.push(b':');
        Ok(())
    }

    /// Completes a key that was written from this offset on: a number or a boolean becomes a string.
    fn finish_key(&mut self, start: usize) -> Result<(), Error> {
        let out = &mut self.writer.out;
        match out.get(start) {
            Some(b'"') => {}
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                out.insert(start, b'"');
                out.push(b'"');
            }
            _ => return Err(Error::custom("key must be a string")),
        }
        Ok(())
    }

    fn finish(self) {
        self.writer.push(self.end);
    }
}

/// Implements functions for numbers and other values of one token.
macro_rules! scalars {
    ($($function:ident $type:ty as $wide:ty;)*) => {$(
        fn $function(self, value: $type) -> Result<(), Error> {
            self.scalar(&<$wide>::from(value))
        }
    )*};
}

impl<'w> Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'w>;
    type SerializeTuple = Compound<'w>;
    type SerializeTupleStruct = Compound<'w>;
    type SerializeTupleVariant = Compound<'w>;
    type SerializeMap = Compound<'w>;
    type SerializeStruct = Compound<'w>;
    type SerializeStructVariant = Compound<'w>;

    scalars! {
        serialize_bool bool as bool;
        serialize_i8 i8 as i64;
        serialize_i16 i16 as i64;
        serialize_i32 i32 as i64;
        serialize_i64 i64 as i64;
        serialize_i128 i128 as i128;
        serialize_u8 u8 as u64;
        serialize_u16 u16 as u64;
        serialize_u32 u32 as u64;
        serialize_u64 u64 as u64;
        serialize_u128 u128 as u128;
        serialize_f32 f32 as f32;
        serialize_f64 f64 as f64;
        serialize_char char as char;
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        if std::mem::take(&mut self.is_raw) {
            self.push(value);
            return Ok(());
        }
        self.string(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        self.scalar(value)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.push("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.string(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant)?;
        value.serialize(&mut *self)?;
        self.push("}");
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'w>, Error> {
        Ok(self.compound("[", "]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'w>, Error> {
        Ok(self.compound("[", "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'w>, Error> {
        Ok(self.compound("[", "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'w>, Error> {
        self.variant(variant)?;
        Ok(self.compound("[", "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'w>, Error> {
        Ok(self.compound("{", "}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Compound<'w>, Error> {
        self.is_raw = name == RAW_VALUE;
        Ok(match self.is_raw {
            true => self.compound("", ""),
            false => self.compound("{", "}"),
        })
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'w>, Error> {
        self.variant(variant)?;
        Ok(self.compound("{", "}}"))
    }
}

/// Implements the elements of arrays.
macro_rules! elements {
    ($($array:ident $function:ident)*) => {$(
        impl $array for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn $function<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.next();
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<(), Error> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

/// Implements the fields of structs.
macro_rules! fields {
    ($($object:ident)*) => {$(
        impl $object for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
                self.field(key)?;
                value.serialize(&mut *self.writer)
            }

            fn end(self) -> Result<(), Error> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

elements! {
    SerializeSeq serialize_element
    SerializeTuple serialize_element
    SerializeTupleStruct serialize_field
    SerializeTupleVariant serialize_field
}

fields! { SerializeStruct SerializeStructVariant }

impl SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.next();
        let start = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        self.finish_key(start)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}
