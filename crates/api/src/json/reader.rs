//! [`Reader`]: serde's `Deserializer` over [`Tokens`].

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Number};

use super::tokens::Tokens;

/// A reader of one value.
#[derive(Debug)]
pub(super) struct Reader<'a>(Tokens<'a>);

/// The members of an object that was entered.
struct Members<'r, 'a> {
    reader: &'r mut Reader<'a>,
    is_first: bool,
}

/// The elements of an array that was entered.
struct Elements<'r, 'a> {
    reader: &'r mut Reader<'a>,
    is_first: bool,
}

/// A key of an object: a string, from which numbers and booleans are parsed if the type of the key is one.
struct KeyReader<'k>(&'k str);

impl<'a> Reader<'a> {
    pub(super) fn new(json: &'a [u8]) -> Result<Self, Error> {
        Tokens::new(json).map(Self)
    }

    /// Checks that nothing but whitespace follows.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        self.0.finish()
    }

    /// The error with its line and column.
    pub(super) fn locate(&self, error: Error) -> Error {
        self.0.locate(error)
    }

    fn object<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.0.enter()?;
        let value = visitor.visit_map(Members {
            reader: self,
            is_first: true,
        })?;
        self.0.leave(b'}').map(|()| value)
    }

    fn array<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        self.0.enter()?;
        let value = visitor.visit_seq(Elements {
            reader: self,
            is_first: true,
        })?;
        self.0.leave(b']').map(|()| value)
    }
}

/// Implements functions for numbers: the visitor decides whether the number fits.
macro_rules! numbers {
    ($($function:ident)*) => {$(
        fn $function<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.peek()? {
                b'-' | b'0'..=b'9' => visit_number(&self.0.number()?, visitor),
                _ => Err(self.0.invalid_type(&visitor)),
            }
        }
    )*};
}

/// Implements functions for strings.
macro_rules! strings {
    ($($function:ident)*) => {$(
        fn $function<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.peek()? {
                b'"' => visitor.visit_str(self.0.string()?),
                _ => Err(self.0.invalid_type(&visitor)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.peek()? {
            b'"' => visitor.visit_str(self.0.string()?),
            b'{' => self.object(visitor),
            b'[' => self.array(visitor),
            b'n' => self.deserialize_unit(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            _ => visit_number(&self.0.number()?, visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.peek()? {
            b't' => self.0.word("true").and_then(|()| visitor.visit_bool(true)),
            b'f' => self.0.word("false").and_then(|()| visitor.visit_bool(false)),
            _ => Err(self.0.invalid_type(&visitor)),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.peek()? {
            b'n' => self.0.word("null").and_then(|()| visitor.visit_unit()),
            _ => Err(self.0.invalid_type(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.peek()? {
            b'n' => self.0.word("null").and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.peek()? {
            b'[' => self.array(visitor),
            _ => Err(self.0.invalid_type(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.peek()? {
            b'{' => self.object(visitor),
            _ => Err(self.0.invalid_type(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.0.peek()? == b'"' {
            return visitor.visit_enum(self.0.string()?.into_deserializer());
        }
        if self.0.peek()? != b'{' {
            return Err(self.0.invalid_type(&visitor));
        }
        self.0.enter()?;
        let members = Members {
            reader: self,
            is_first: true,
        };
        let value = visitor.visit_enum(MapAccessDeserializer::new(members))?;
        self.0.leave(b'}').map(|()| value)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.peek()? {
            b'"' => visitor.visit_bytes(self.0.string()?.as_bytes()),
            _ => self.deserialize_seq(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.0.skip()?;
        visitor.visit_unit()
    }

    strings! { deserialize_str deserialize_string deserialize_char deserialize_identifier }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
    }
}

fn visit_number<'de, V: Visitor<'de>>(number: &Number, visitor: V) -> Result<V::Value, Error> {
    if let Some(value) = number.as_u64() {
        visitor.visit_u64(value)
    } else if let Some(value) = number.as_i64() {
        visitor.visit_i64(value)
    } else {
        visitor.visit_f64(number.as_f64().unwrap_or_default())
    }
}

impl<'de> MapAccess<'de> for Members<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        match self.reader.0.next_key(&mut self.is_first)? {
            Some(key) => seed.deserialize(KeyReader(key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.reader.0.next_element(&mut self.is_first)? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

/// Implements functions for keys that are numbers.
macro_rules! number_keys {
    ($($function:ident)*) => {$(
        fn $function<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.parse() {
                Ok(number) => visit_number(&number, visitor),
                Err(_) => visitor.visit_str(self.0),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for KeyReader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.parse() {
            Ok(value) => visitor.visit_bool(value),
            Err(_) => visitor.visit_str(self.0),
        }
    }

    number_keys! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
