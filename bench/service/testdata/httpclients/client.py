"""Delivers once by each default way of requests and of httpx. Prints a line each: name and status."""

import json
import sys

import httpx
import requests

url, key, body = sys.argv[1:]
headers = {"Authorization": "Bearer " + key}
typed = {**headers, "Content-Type": "application/json"}


def pieces():
    yield body[:20].encode()
    yield body[20:].encode()


print("requests json", requests.post(url, json=json.loads(body), headers=headers).status_code)
print("requests generator", requests.post(url, data=pieces(), headers=typed).status_code)
with requests.Session() as session:
    print("requests session generator", session.post(url, data=pieces(), headers=typed).status_code)
    print("requests session", session.post(url, json=json.loads(body), headers=headers).status_code)
print("httpx json", httpx.post(url, json=json.loads(body), headers=headers).status_code)
print("httpx generator", httpx.post(url, content=pieces(), headers=typed).status_code)
