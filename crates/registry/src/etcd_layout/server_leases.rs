//! Leases of API servers: by the keys `<prefix>/masterleases/<address>` servers that share an etcd find each other,
//! kube-apiservers included (upstream: `pkg/controlplane/reconcilers/lease.go`). The value is an object with the address, which
//! the caller makes; the key alone identifies the server.

use std::net::IpAddr;

use bytes::Bytes;
use setpoint_api::GroupResource;
use setpoint_schema::Tree;
use setpoint_store::{Error, StoredValue, ValueTransformer};

use super::{EtcdLayout, undecodable, values};
use crate::key;

/// The path of the leases.
const PATH: &str = "masterleases/";

/// The resource that an encryption configuration has for them.
const RESOURCE: &str = "apiServerIPInfo";

impl EtcdLayout {
    /// The prefix of the leases' keys.
    pub fn server_lease_prefix(&self) -> String {
        format!("{}{PATH}", self.keys.prefix())
    }

    /// The key of the lease of the server with this address.
    pub fn server_lease_key(&self, address: IpAddr) -> Bytes {
        Bytes::from(format!("{}{address}", self.server_lease_prefix()))
    }

    /// The lease of the server with this address. Its value is this object of a built-in kind, sealed by `transformer`.
    pub fn server_lease(
        &self,
        address: IpAddr,
        (resource, object): (&GroupResource, Tree),
        transformer: Option<&dyn ValueTransformer>,
    ) -> Result<StoredValue, Error> {
        let key = self.server_lease_key(address);
        let kind = self.values.find_stored(&resource.to_string());
        let kind = kind.ok_or_else(|| undecodable(&key, "its kind is not served"))?;
        let value = values::encode_tree(&**kind, object).map_err(|reason| undecodable(&key, &reason))?;
        let map_key = format!("{}{RESOURCE}/{address}", key::ROOT);
        let sealed = match transformer {
            Some(transformer) => transformer.seal(map_key.as_bytes(), &key, &value)?,
            None => None,
        };
        Ok(StoredValue {
            value: sealed.map_or_else(|| Bytes::from(value), |sealed| sealed.bytes),
            key,
        })
    }

    /// The address of the server of a lease; `None` if it is not the key of one.
    pub fn server_lease_address(&self, stored_key: &[u8]) -> Option<IpAddr> {
        let address = stored_key.strip_prefix(self.server_lease_prefix().as_bytes())?;
        std::str::from_utf8(address).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::DEFAULT_PREFIX;
    use super::*;

    fn layout() -> EtcdLayout {
        EtcdLayout::new(DEFAULT_PREFIX, &setpoint_kinds::builtin())
    }

    /// The bytes as kube-apiserver encodes them: the envelope of a v1 Endpoints, its metadata with the generation, one
    /// address with an empty host name, and the empty content encoding and type.
    #[test]
    fn a_lease_is_an_endpoints_object_under_the_address() {
        let address = "192.0.2.2".parse().unwrap();
        let (gvr, object) = setpoint_kinds::bootstrap::server_objects::server_lease(address, 3);
        let lease = layout()
            .server_lease(address, (&gvr.group_resource(), object), None)
            .unwrap();
        assert_eq!(lease.key, "/registry/masterleases/192.0.2.2");
        let expected: &[u8] = b"k8s\0\n\x0f\n\x02v1\x12\tEndpoints\x12#\
            \n\x10\n\0\x12\0\x1a\0\"\0*\x002\x008\x03B\0\
            \x12\x0f\n\r\n\t192.0.2.2\x1a\0\
            \x1a\0\"\0";
        assert_eq!(&lease.value[..], expected);
    }

    #[track_caller]
    fn check(stored_key: &str, expected: Option<&str>) {
        let address = layout().server_lease_address(stored_key.as_bytes());
        assert_eq!(address.map(|address| address.to_string()).as_deref(), expected);
    }

    #[test]
    fn a_key_has_the_address_of_its_server() {
        check("/registry/masterleases/192.0.2.2", Some("192.0.2.2"));
        check("/registry/masterleases/2001:db8::1", Some("2001:db8::1"));
        check("/registry/masterleases/other", None);
        check("/registry/pods/a/b", None);
    }
}
