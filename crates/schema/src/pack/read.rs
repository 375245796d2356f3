//! Decoding of the pack's bytes.
//!
//! The file is part of the program and was written by the program's own tool, so a mistake in it is a bug
//! and panics; no user input reaches this code.

use std::sync::OnceLock;

use compact_str::CompactString;

use super::{GroupVersion, MAGIC, Pack, SCALARS, SPECIAL_FORMS, TypeId};
use crate::shape::{Cardinality, Field, FieldRules, FieldType, Gvk, ListType, MapType, Shape, ShapeRef};
use crate::tree::{Map, Tree};

const WHOLE: &str = "the pack is whole";

/// Decodes everything but the types.
pub(super) fn open(bytes: &'static [u8]) -> Pack {
    let body = bytes.strip_prefix(MAGIC).expect("the pack is of this version");
    let strings = read_strings(&mut Reader {
        bytes: body,
        strings: &[],
    });
    let mut reader = Reader {
        bytes: strings.1,
        strings: &strings.0,
    };
    let release = reader.text().expect(WHOLE);
    let group_versions = reader.many(|reader| GroupVersion {
        name: reader.text().expect(WHOLE),
        package: reader.text().expect(WHOLE),
        enabled_by_default: reader.number() == 1,
    });
    let enums = reader.many(|reader| {
        (
            reader.text().expect(WHOLE),
            reader.many(|reader| reader.text().expect(WHOLE)),
        )
    });
    let kinds = reader.many(|reader| {
        let gvk = [(); 3].map(|()| reader.text().unwrap_or(""));
        (gvk, TypeId(reader.number() as u16))
    });
    let lengths = reader.many(|reader| reader.number());
    let records: Vec<_> = lengths.into_iter().map(|length| reader.take(length)).collect();
    let shapes = records.iter().map(|_| OnceLock::new()).collect();
    Pack {
        strings: strings.0,
        release,
        group_versions,
        enums,
        kinds,
        records,
        shapes,
    }
}

/// Decodes one type.
pub(super) fn shape(strings: &[&'static str], record: &'static [u8]) -> Shape {
    let mut reader = Reader {
        bytes: record,
        strings,
    };
    let id = reader.name().expect(WHOLE);
    let flags = reader.number();
    let (openapi, proto) = (reader.name(), reader.name());
    let gvk = (flags & 8 != 0).then(|| Gvk {
        group: reader.name().unwrap_or_default(),
        version: reader.name().expect(WHOLE),
        kind: reader.name().expect(WHOLE),
    });
    let special = reader.number().checked_sub(1).map(|at| SPECIAL_FORMS[at].1);
    let shape = Shape {
        id,
        openapi_name: openapi,
        proto_name: proto,
        gvk,
        special_form: special,
        any_group: flags & 1 != 0,
        type_meta: flags & 2 != 0,
        wrap: flags & 4 != 0,
        map_type: reader.map_type(),
        unions: reader.tree(),
        fields: reader.many(Reader::field),
        ..Shape::default()
    };
    shape.with_layout()
}

fn read_strings(reader: &mut Reader<'_>) -> (Vec<&'static str>, &'static [u8]) {
    let strings = reader.many(|reader| {
        let length = reader.number();
        std::str::from_utf8(reader.take(length)).expect("the pack's strings are UTF-8")
    });
    (strings, reader.bytes)
}

struct Reader<'a> {
    bytes: &'static [u8],
    strings: &'a [&'static str],
}

impl Reader<'_> {
    fn number(&mut self) -> usize {
        let mut number = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.byte();
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn byte(&mut self) -> u8 {
        let (first, rest) = self.bytes.split_first().expect(WHOLE);
        self.bytes = rest;
        *first
    }

    fn take(&mut self, length: usize) -> &'static [u8] {
        let (taken, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        taken
    }

    fn text(&mut self) -> Option<&'static str> {
        self.number().checked_sub(1).map(|at| self.strings[at])
    }

    /// A text that borrows from the pack and costs no allocation.
    fn name(&mut self) -> Option<CompactString> {
        self.text().map(CompactString::const_new)
    }

    fn many<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.number();
        (0..count).map(|_| read(self)).collect()
    }

    /// Absent 0, null 1, false 2, true 3, whole number 4 (zigzag), text 5, list 6 (count, trees), map 7 (count, text
    /// and tree each).
    fn tree(&mut self) -> Option<Tree> {
        Some(match self.byte() {
            0 => return None,
            1 => Tree::Null,
            2 => Tree::Bool(false),
            3 => Tree::Bool(true),
            4 => Tree::Int(unzigzag(self.number() as u64)),
            5 => Tree::Str(self.name().unwrap_or_default()),
            6 => Tree::List(self.many(|reader| reader.tree().expect(WHOLE))),
            7 => Tree::Map(
                self.many(|reader| (reader.name().expect(WHOLE), reader.tree().expect(WHOLE)))
                    .into_iter()
                    .collect::<Map>(),
            ),
            other => panic!("unknown tree tag {other} in the pack"),
        })
    }

    fn map_type(&mut self) -> Option<MapType> {
        [None, Some(MapType::Atomic), Some(MapType::Granular)][self.number()]
    }

    fn list_type(&mut self) -> Option<ListType> {
        [
            None,
            Some(ListType::Atomic),
            Some(ListType::Set),
            Some(ListType::Map),
        ][self.number()]
    }

    fn field(&mut self) -> Field {
        let name = self.name().expect(WHOLE);
        let number = Some(self.number() as u32).filter(|number| *number != 0);
        let flags = self.number();
        let card = match flags & 3 {
            1 => Cardinality::List,
            2 => Cardinality::Map,
            _ => Cardinality::One,
        };
        Field {
            name,
            number,
            cardinality: card,
            value_type: self.field_type(),
            inline: flags & 4 != 0,
            wrap: flags & 8 != 0,
            ptr: flags & 16 != 0,
            required: flags & 32 != 0,
            zero: self.tree(),
            default: self.tree(),
            list_type: self.list_type(),
            list_keys: self.many(|reader| reader.name().expect(WHOLE)),
            map_type: self.map_type(),
            rules: (flags & 64 != 0).then(|| Box::new(self.rules())),
        }
    }

    fn rules(&mut self) -> FieldRules {
        FieldRules {
            raw_type: self.name(),
            patch_strategy: self.name(),
            merge_key: self.name(),
            enum_name: self.name(),
            feature_gates: self.name(),
            one_of: self.name(),
            declared_type: self.name(),
            validation_tags: self.many(|reader| reader.name().expect(WHOLE)),
        }
    }

    fn field_type(&mut self) -> FieldType {
        let at = self.number();
        match at.checked_sub(SCALARS.len()) {
            Some(shape) => FieldType::Shape(ShapeRef::Builtin(TypeId(shape as u16))),
            None => self.scalar(SCALARS[at]),
        }
    }

    fn scalar(&mut self, name: &str) -> FieldType {
        match name {
            "string" => FieldType::String,
            "bool" => FieldType::Bool,
            "int32" => FieldType::Int32,
            "int64" => FieldType::Int64,
            "double" => FieldType::Double,
            "bytes" => FieldType::Bytes,
            "time" => FieldType::Time,
            "microtime" => FieldType::MicroTime,
            "duration" => FieldType::Duration,
            "quantity" => FieldType::Quantity,
            "intorstring" => FieldType::IntOrString,
            "rawjson" => FieldType::RawJson,
            "schemaorbool" => FieldType::SchemaOrBool(self.shape_ref()),
            "schemaorarray" => FieldType::SchemaOrArray(self.shape_ref()),
            "schemaorstrings" => FieldType::SchemaOrStrings(self.shape_ref()),
            other => panic!("unknown scalar {other} in the pack"),
        }
    }

    fn shape_ref(&mut self) -> ShapeRef {
        ShapeRef::Builtin(TypeId(self.number() as u16))
    }
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
