"""TLS in front of a server that has none: tls.py CERT KEY LISTEN:TARGET …, ports of 127.0.0.1."""
import asyncio
import ssl
import sys


async def copy(source, sink):
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass  # either side may hang up at any time
    finally:
        sink.close()


async def serve(context, listen, target):
    async def connected(reader, writer):
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", listen, ssl=context)
    await server.serve_forever()


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    pairs = [tuple(map(int, pair.split(":"))) for pair in sys.argv[3:]]
    await asyncio.gather(*(serve(context, *pair) for pair in pairs))


asyncio.run(main())
