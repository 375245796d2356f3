//! Kubernetes' layout of etcd: [`EtcdLayout`] is the codec with which a store on etcd has the keys and values of
//! kube-apiserver, so that both can serve the same data.
//!
//! `keys` maps the store's keys to Kubernetes' paths, `values` the store's JSON to Kubernetes' storage encoding: protobuf
//! for most built-in kinds, JSON for custom resources. Besides objects the map has the ranges that numbers are allocated from.
//! Other keys under the prefix are skipped; they belong to kube-apiserver. `server_leases` has those of the servers' leases.
//!
//! Facts: `pkg/kubeapiserver/default_storage_factory_builder.go` and
//! `staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go` in Kubernetes.

mod keys;
mod server_leases;
mod values;

use std::collections::HashSet;

use bytes::Bytes;

use setpoint_api::GroupResource;
use setpoint_store::{Attachment, DecodedValue, Error, Put, Record, Revision, StoredValue, ValueCodec};
use setpoint_strategy::Kinds;

use crate::{key, stored_object};
use keys::{KeyLayout, Selection};
use values::ValueLayout;

/// The prefix that kube-apiserver has by default (`--etcd-prefix`).
pub const DEFAULT_PREFIX: &str = "/registry";

/// The codec of a store on etcd: Kubernetes' keys and values.
#[derive(Debug)]
pub struct EtcdLayout {
    keys: KeyLayout,
    values: ValueLayout,
}

impl EtcdLayout {
    /// The layout under `prefix`, for these built-in kinds and for all custom kinds.
    pub fn new(prefix: &str, kinds: &Kinds) -> Self {
        Self {
            keys: KeyLayout::new(prefix, kinds),
            values: ValueLayout::new(kinds),
        }
    }

    /// The same layout on an etcd that has these resources alone.
    #[must_use]
    pub fn with_only(mut self, resources: &[GroupResource]) -> Self {
        self.keys.select(Selection::Only(segments(resources)));
        self
    }

    /// The same layout on an etcd that has all resources but these.
    #[must_use]
    pub fn without(mut self, resources: &[GroupResource]) -> Self {
        self.keys.select(Selection::Except(segments(resources)));
        self
    }
}

fn segments(resources: &[GroupResource]) -> HashSet<String> {
    resources.iter().map(ToString::to_string).collect()
}

impl ValueCodec for EtcdLayout {
    fn stored_prefix(&self) -> Bytes {
        Bytes::copy_from_slice(self.keys.prefix().as_bytes())
    }

    fn stored_key(&self, key: &[u8]) -> Result<Bytes, Error> {
        let stored = self.keys.to_etcd(key).map(Bytes::from);
        stored.ok_or_else(|| undecodable(key, "not the key of an object"))
    }

    fn map_key(&self, stored_key: &[u8]) -> Option<Bytes> {
        self.keys.parse_etcd(stored_key).map(Bytes::from)
    }

    fn encode(&self, put: &Put) -> Result<StoredValue, Error> {
        let key = self.stored_key(&put.key)?;
        let value = self.values.encode(put);
        let value = value.map_err(|reason| undecodable(&put.key, &reason))?;
        Ok(StoredValue {
            value: Bytes::from(value),
            key,
        })
    }

    fn decode(&self, stored_key: &[u8], value: Bytes, revision: Revision) -> Result<DecodedValue, Error> {
        let key = self
            .map_key(stored_key)
            .ok_or_else(|| undecodable(stored_key, "not the key of an object"))?;
        let json = self.values.decode(&key, &value, revision);
        Ok(DecodedValue {
            value: Bytes::from(json.map_err(|reason| undecodable(stored_key, &reason))?),
            key,
            attachment: Attachment::default(),
        })
    }
}

/// Whether a key of the map is that of an object, not of a range. A copy has no range: the servers calculate it from the
/// objects.
pub fn is_object_key(map_key: &[u8]) -> bool {
    key::split(map_key).is_some_and(|(segment, _)| segment != key::RANGES)
}

/// The put that writes the object of a record again, to another store: its resource version is to be stamped.
pub fn put_again(record: &Record) -> Put {
    let (value, stamp) = stored_object::unstamped(&record.value);
    Put {
        key: record.key.clone(),
        value: Bytes::from(value),
        stamp,
        expires: record.expires,
        ..Put::default()
    }
}

fn undecodable(key: &[u8], reason: &str) -> Error {
    Error::Undecodable {
        key: Bytes::copy_from_slice(key),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_stored_under_its_key_in_etcd_and_read_from_there() {
        let layout = EtcdLayout::new(DEFAULT_PREFIX, &setpoint_kinds::builtin());
        let json = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","resourceVersion":""}}"#;
        let put = Put {
            key: Bytes::from_static(b"/registry/nodes/a"),
            value: Bytes::from_static(json.as_bytes()),
            stamp: json.find(r#"""}"#).map(|at| at as u32 + 1),
            ..Put::default()
        };
        let stored = layout.encode(&put).unwrap();
        assert_eq!(stored.key, "/registry/minions/a");
        assert!(stored.value.starts_with(b"k8s\0"));
        let decoded = layout
            .decode(&stored.key, stored.value, Revision::new(7))
            .unwrap();
        assert_eq!(decoded.key, "/registry/nodes/a");
        assert!(decoded.value.starts_with(br#"{"kind":"Node","#));
    }
}
