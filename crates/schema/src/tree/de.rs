//! Deserialization: from a tree to typed values, and from any serde format to a tree.
//!
//! `T::deserialize(&tree)` reads a type straight from the tree, without text in between. Strings are borrowed from
//! the tree, so a type that borrows from its input may do so.

use compact_str::CompactString;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::{Error, Map, Tree};

/// Deserializes a tree into a typed value.
pub fn from_tree<'de, T: Deserialize<'de>>(tree: &'de Tree) -> Result<T, Error> {
    T::deserialize(tree)
}

impl de::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Error(message.to_string())
    }
}

// === impl Deserialize for Tree ===

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

impl<'de> Deserialize<'de> for Map {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Map, D::Error> {
        match Tree::deserialize(deserializer)? {
            Tree::Map(map) => Ok(map),
            other => Err(de::Error::invalid_type(unexpected(&other), &"a map")),
        }
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(i64::try_from(number).map_or(Tree::Float(number as f64), Tree::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(Tree::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(text.into())
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::with_capacity(access.size_hint().unwrap_or(0).min(1024));
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut map = Map::with_capacity(access.size_hint().unwrap_or(0).min(1024));
        while let Some((key, value)) = access.next_entry::<CompactString, Tree>()? {
            map.push(key, value);
        }
        Ok(Tree::Map(map))
    }
}

// === impl Deserializer for &Tree ===

impl<'de> Deserializer<'de> for &'de Tree {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Tree::Null => visitor.visit_unit(),
            Tree::Bool(value) => visitor.visit_bool(*value),
            Tree::Int(number) => visitor.visit_i64(*number),
            Tree::Float(number) => visitor.visit_f64(*number),
            Tree::Str(text) => visitor.visit_borrowed_str(text),
            Tree::List(items) => visit_list(items, visitor),
            Tree::Map(map) => visit_map(map, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Tree::Null => visitor.visit_none(),
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

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Tree::Str(name) => visitor.visit_enum(Variant { name, value: None }),
            Tree::Map(map) if map.len() == 1 => {
                let (name, value) = map.iter().next().expect("a map of one pair has a first pair");
                visitor.visit_enum(Variant {
                    name,
                    value: Some(value),
                })
            }
            other => Err(de::Error::invalid_type(
                unexpected(other),
                &"a string or a map of one key",
            )),
        }
    }

    // Never a list, so that reading a list is not compiled for every struct.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Tree::Map(map) => visit_map(map, visitor),
            other => Err(de::Error::invalid_type(unexpected(other), &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier
    }
}

impl<'de> IntoDeserializer<'de, Error> for &'de Tree {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn visit_list<'de, V: Visitor<'de>>(items: &'de [Tree], visitor: V) -> Result<V::Value, Error> {
    let mut elements = Elements(items.iter());
    let value = visitor.visit_seq(&mut elements)?;
    elements.finish(items.len()).map(|()| value)
}

fn visit_map<'de, V: Visitor<'de>>(map: &'de Map, visitor: V) -> Result<V::Value, Error> {
    visitor.visit_map(Members { map, at: 0 })
}

fn unexpected(tree: &Tree) -> Unexpected<'_> {
    match tree {
        Tree::Null => Unexpected::Unit,
        Tree::Bool(value) => Unexpected::Bool(*value),
        Tree::Int(number) => Unexpected::Signed(*number),
        Tree::Float(number) => Unexpected::Float(*number),
        Tree::Str(text) => Unexpected::Str(text),
        Tree::List(_) => Unexpected::Seq,
        Tree::Map(_) => Unexpected::Map,
    }
}

/// The elements of a list that are not read yet.
struct Elements<'de>(std::slice::Iter<'de, Tree>);

impl Elements<'_> {
    /// Checks that the visitor read all of them, such as a tuple that has fewer fields.
    fn finish(&self, length: usize) -> Result<(), Error> {
        match self.0.len() {
            0 => Ok(()),
            unread => {
                let expected = format!("{} elements in sequence", length - unread);
                Err(de::Error::invalid_length(length, &expected.as_str()))
            }
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.0.next() {
            Some(item) => seed.deserialize(item).map(Some),
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The pairs of a map, of which the one at this index is read next.
struct Members<'de> {
    map: &'de Map,
    at: usize,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        match self.map.pair(self.at) {
            Some((key, _)) => seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (_, value) = self.map.pair(self.at).expect("a value is read after its key");
        self.at += 1;
        seed.deserialize(value)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.map.len() - self.at)
    }
}

struct Variant<'de> {
    name: &'de str,
    value: Option<&'de Tree>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Content<'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Content<'de>), Error> {
        let name: StrDeserializer<'_, Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, Content(self.value)))
    }
}

/// The content of an enum variant: none for a bare name.
struct Content<'de>(Option<&'de Tree>);

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Deserialize::deserialize)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self.0.unwrap_or(&Tree::Null))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.0.unwrap_or(&Tree::Null).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0.unwrap_or(&Tree::Null).deserialize_any(visitor)
    }
}
