//! Kubernetes' layout of etcd: [`EtcdLayout`] is the codec with which a store on etcd has the keys and values of
//! kube-apiserver, so that both can serve the same data.
//!
//! `keys` maps the store's keys to Kubernetes' paths, `values` the store's JSON to Kubernetes' storage encoding: protobuf
//! for most built-in kinds, JSON for custom resources. Keys under the prefix that are not those of objects, such as the
//! bitmaps of node ports, are skipped; they belong to kube-apiserver. `server_leases` has those of the servers' leases.
//!
//! Facts: `pkg/kubeapiserver/default_storage_factory_builder.go` and
//! `staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go` in Kubernetes.

mod keys;
mod server_leases;
mod values;

use std::sync::Arc;

use bytes::Bytes;

use setpoint_store::{
    Attachment, DecodedValue, Error, Put, Record, Revision, StoredValue, ValueCodec, ValueTransformer,
};
use setpoint_strategy::Kinds;

use crate::stored_object;
use keys::KeyLayout;
use values::ValueLayout;

/// The prefix that kube-apiserver has by default (`--etcd-prefix`).
pub const DEFAULT_PREFIX: &str = "/registry";

/// The codec of a store on etcd: Kubernetes' keys and values.
#[derive(Debug)]
pub struct EtcdLayout {
    keys: KeyLayout,
    values: ValueLayout,
    transformer: Option<Arc<dyn ValueTransformer>>,
}

impl EtcdLayout {
    /// The layout under `prefix`, for these built-in kinds and for all custom kinds. The transformer encrypts values, bound
    /// to their keys in etcd.
    pub fn new(prefix: &str, kinds: &Kinds, transformer: Option<Arc<dyn ValueTransformer>>) -> Self {
        Self {
            keys: KeyLayout::new(prefix, kinds),
            values: ValueLayout::new(kinds),
            transformer,
        }
    }

    fn seal(&self, map_key: &[u8], stored_key: &[u8], value: Vec<u8>) -> Result<Bytes, Error> {
        let Some(transformer) = &self.transformer else {
            return Ok(Bytes::from(value));
        };
        let sealed = transformer.seal(map_key, stored_key, &value)?;
        transformer.record(map_key, sealed.as_deref());
        Ok(sealed.unwrap_or_else(|| Bytes::from(value)))
    }

    fn open(&self, map_key: &[u8], stored_key: &[u8], value: Bytes) -> Result<Bytes, Error> {
        match &self.transformer {
            Some(transformer) => transformer.open(map_key, stored_key, value),
            None => Ok(value),
        }
    }
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
            value: self.seal(&put.key, &key, value)?,
            key,
        })
    }

    fn decode(&self, stored_key: &[u8], value: Bytes, revision: Revision) -> Result<DecodedValue, Error> {
        let key = self
            .map_key(stored_key)
            .ok_or_else(|| undecodable(stored_key, "not the key of an object"))?;
        let value = self.open(&key, stored_key, value)?;
        let json = self.values.decode(&key, &value, revision);
        Ok(DecodedValue {
            value: Bytes::from(json.map_err(|reason| undecodable(stored_key, &reason))?),
            key,
            attachment: Attachment::default(),
        })
    }
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
    use parking_lot::Mutex;

    use super::*;

    /// Puts the authenticated data in front of a value.
    #[derive(Debug, Default)]
    struct Labeler {
        recorded: Mutex<Vec<(Vec<u8>, bool)>>,
    }

    impl ValueTransformer for Labeler {
        fn is_active(&self) -> bool {
            true
        }

        fn seal(&self, key: &[u8], authenticated: &[u8], value: &[u8]) -> Result<Option<Bytes>, Error> {
            let is_sealed = key.starts_with(b"/registry/nodes/");
            Ok(is_sealed.then(|| Bytes::from([authenticated, b":", value].concat())))
        }

        fn open(&self, _key: &[u8], authenticated: &[u8], value: Bytes) -> Result<Bytes, Error> {
            let opened = value.strip_prefix(&[authenticated, b":"].concat()[..]);
            Ok(opened.map_or(value.clone(), Bytes::copy_from_slice))
        }

        fn record(&self, key: &[u8], sealed: Option<&[u8]>) {
            self.recorded.lock().push((key.to_vec(), sealed.is_some()));
        }

        fn is_stale(&self, _key: &[u8]) -> bool {
            false
        }
    }

    fn put(key: &'static str, kind: &str) -> Put {
        let json = format!(
            r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"name":"a","resourceVersion":""}}}}"#
        );
        let stamp = json.find(r#"""}"#).map(|at| at as u32 + 1);
        Put {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from(json),
            stamp,
            ..Put::default()
        }
    }

    #[test]
    fn values_are_sealed_with_their_keys_in_etcd() {
        let labeler = Arc::new(Labeler::default());
        let layout = EtcdLayout::new(DEFAULT_PREFIX, &setpoint_kinds::builtin(), Some(labeler.clone()));
        let sealed = layout.encode(&put("/registry/nodes/a", "Node")).unwrap();
        assert!(sealed.value.starts_with(b"/registry/minions/a:k8s\0"));
        let opened = layout
            .decode(&sealed.key, sealed.value, Revision::new(7))
            .unwrap();
        assert_eq!(opened.key, "/registry/nodes/a");
        assert!(opened.value.starts_with(br#"{"kind":"Node","#));
        let plain = layout
            .encode(&put("/registry/namespaces/a", "Namespace"))
            .unwrap();
        assert!(plain.value.starts_with(b"k8s\0"));
        assert_eq!(
            *labeler.recorded.lock(),
            [
                (b"/registry/nodes/a".to_vec(), true),
                (b"/registry/namespaces/a".to_vec(), false)
            ]
        );
    }
}
