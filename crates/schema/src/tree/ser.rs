//! Serialization: from typed values to a tree, and from a tree to any serde format.

use compact_str::CompactString;
use serde::ser::{self, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{Error, Map, Tree};

/// Serializes a typed value into a tree. Unset options become nulls unless the type skips them.
pub fn to_tree<T: Serialize + ?Sized>(value: &T) -> Result<Tree, Error> {
    value.serialize(ToTree)
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Tree::Null => serializer.serialize_unit(),
            Tree::Bool(value) => serializer.serialize_bool(*value),
            Tree::Int(number) => serializer.serialize_i64(*number),
            Tree::Float(number) => serializer.serialize_f64(*number),
            Tree::Str(text) => serializer.serialize_str(text),
            Tree::List(items) => {
                let mut out = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| out.serialize_element(item))?;
                out.end()
            }
            Tree::Map(map) => map.serialize(serializer),
        }
    }
}

impl Serialize for Map {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(self.len()))?;
        self.iter()
            .try_for_each(|(key, value)| out.serialize_entry(key, value))?;
        out.end()
    }
}

impl ser::Error for Error {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Error(message.to_string())
    }
}

struct ToTree;

/// Serializer of a list, a map, or an enum variant that holds either.
struct CollectionSerializer {
    variant: Option<&'static str>,
    items: Vec<Tree>,
    map: Map,
    key: CompactString,
}

impl CollectionSerializer {
    fn new(variant: Option<&'static str>, len: usize) -> Self {
        CollectionSerializer {
            variant,
            items: Vec::with_capacity(len),
            map: Map::default(),
            key: CompactString::default(),
        }
    }

    fn of_map(variant: Option<&'static str>, len: usize) -> Self {
        CollectionSerializer {
            variant,
            items: Vec::new(),
            map: Map::with_capacity(len),
            key: CompactString::default(),
        }
    }

    fn finish_list(self) -> Tree {
        tagged(self.variant, Tree::List(self.items))
    }

    fn finish_map(self) -> Tree {
        tagged(self.variant, Tree::Map(self.map))
    }
}

fn tagged(variant: Option<&'static str>, tree: Tree) -> Tree {
    match variant {
        Some(name) => Tree::Map(Map::from_iter([(name, tree)])),
        None => tree,
    }
}

fn unsigned(number: u64) -> Tree {
    i64::try_from(number).map_or(Tree::Float(number as f64), Tree::Int)
}

impl Serializer for ToTree {
    type Ok = Tree;
    type Error = Error;
    type SerializeSeq = CollectionSerializer;
    type SerializeTuple = CollectionSerializer;
    type SerializeTupleStruct = CollectionSerializer;
    type SerializeTupleVariant = CollectionSerializer;
    type SerializeMap = CollectionSerializer;
    type SerializeStruct = CollectionSerializer;
    type SerializeStructVariant = CollectionSerializer;

    fn serialize_bool(self, value: bool) -> Result<Tree, Error> {
        Ok(Tree::Bool(value))
    }

    fn serialize_i8(self, number: i8) -> Result<Tree, Error> {
        Ok(Tree::Int(number.into()))
    }

    fn serialize_i16(self, number: i16) -> Result<Tree, Error> {
        Ok(Tree::Int(number.into()))
    }

    fn serialize_i32(self, number: i32) -> Result<Tree, Error> {
        Ok(Tree::Int(number.into()))
    }

    fn serialize_i64(self, number: i64) -> Result<Tree, Error> {
        Ok(Tree::Int(number))
    }

    fn serialize_u8(self, number: u8) -> Result<Tree, Error> {
        Ok(Tree::Int(number.into()))
    }

    fn serialize_u16(self, number: u16) -> Result<Tree, Error> {
        Ok(Tree::Int(number.into()))
    }

    fn serialize_u32(self, number: u32) -> Result<Tree, Error> {
        Ok(Tree::Int(number.into()))
    }

    fn serialize_u64(self, number: u64) -> Result<Tree, Error> {
        Ok(unsigned(number))
    }

    fn serialize_f32(self, number: f32) -> Result<Tree, Error> {
        Ok(Tree::Float(number.into()))
    }

    fn serialize_f64(self, number: f64) -> Result<Tree, Error> {
        Ok(Tree::Float(number))
    }

    fn serialize_char(self, value: char) -> Result<Tree, Error> {
        Ok(Tree::Str(CompactString::from(&*value.encode_utf8(&mut [0; 4]))))
    }

    fn serialize_str(self, text: &str) -> Result<Tree, Error> {
        Ok(Tree::Str(text.into()))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Tree, Error> {
        Ok(Tree::List(
            bytes.iter().map(|byte| Tree::Int((*byte).into())).collect(),
        ))
    }

    fn serialize_none(self) -> Result<Tree, Error> {
        Ok(Tree::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Tree, Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Tree, Error> {
        Ok(Tree::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Tree, Error> {
        Ok(Tree::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Tree, Error> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Tree, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Tree, Error> {
        Ok(tagged(Some(variant), value.serialize(self)?))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<CollectionSerializer, Error> {
        Ok(CollectionSerializer::new(None, len.unwrap_or(0)))
    }

    fn serialize_tuple(self, len: usize) -> Result<CollectionSerializer, Error> {
        Ok(CollectionSerializer::new(None, len))
    }

    fn serialize_tuple_struct(self, _: &'static str, len: usize) -> Result<CollectionSerializer, Error> {
        Ok(CollectionSerializer::new(None, len))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<CollectionSerializer, Error> {
        Ok(CollectionSerializer::new(Some(variant), len))
    }

    fn serialize_map(self, len: Option<usize>) -> Result<CollectionSerializer, Error> {
        Ok(CollectionSerializer::of_map(None, len.unwrap_or(0)))
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<CollectionSerializer, Error> {
        Ok(CollectionSerializer::of_map(None, len))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<CollectionSerializer, Error> {
        Ok(CollectionSerializer::of_map(Some(variant), len))
    }
}

// === impl CollectionSerializer ===

impl SerializeSeq for CollectionSerializer {
    type Ok = Tree;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.items.push(to_tree(value)?);
        Ok(())
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.finish_list())
    }
}

impl ser::SerializeTuple for CollectionSerializer {
    type Ok = Tree;
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.finish_list())
    }
}

impl ser::SerializeTupleStruct for CollectionSerializer {
    type Ok = Tree;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.finish_list())
    }
}

impl ser::SerializeTupleVariant for CollectionSerializer {
    type Ok = Tree;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.finish_list())
    }
}

impl SerializeMap for CollectionSerializer {
    type Ok = Tree;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key = match to_tree(key)? {
            Tree::Str(text) => text,
            Tree::Int(number) => CompactString::from(number.to_string()),
            Tree::Bool(value) => CompactString::from(value.to_string()),
            other => {
                return Err(Error(format!(
                    "a map key must be a string, got {}",
                    other.type_name()
                )));
            }
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let key = std::mem::take(&mut self.key);
        self.map.push(key, to_tree(value)?);
        Ok(())
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.finish_map())
    }
}

impl ser::SerializeStruct for CollectionSerializer {
    type Ok = Tree;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.map.push(key, to_tree(value)?);
        Ok(())
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.finish_map())
    }
}

impl ser::SerializeStructVariant for CollectionSerializer {
    type Ok = Tree;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        ser::SerializeStruct::serialize_field(self, key, value)
    }

    fn end(self) -> Result<Tree, Error> {
        Ok(self.finish_map())
    }
}
